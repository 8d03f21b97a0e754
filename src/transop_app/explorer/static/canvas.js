// The canvas keeps its strokes to itself and sends a picture when the pen is lifted.
const canvas = element.querySelector('canvas'), pen = canvas.getContext('2d');
const colour = element.querySelector('input'), paper = canvas.dataset.paper;
const clear = () => { pen.fillStyle = paper; pen.fillRect(0, 0, 280, 280); };
const place = e => { const box = canvas.getBoundingClientRect();
  return [(e.clientX - box.left) * 280 / box.width, (e.clientY - box.top) * 280 / box.height]; };
let down = false; clear();
canvas.addEventListener('pointerdown', e => { down = true; canvas.setPointerCapture(e.pointerId);
  pen.strokeStyle = colour ? colour.value : canvas.dataset.ink; pen.lineWidth = 22;
  pen.lineCap = pen.lineJoin = 'round'; pen.beginPath(); pen.moveTo(...place(e));
  pen.lineTo(...place(e)); pen.stroke(); });
canvas.addEventListener('pointermove', e => {
  if (down) { pen.lineTo(...place(e)); pen.stroke(); } });
canvas.addEventListener('pointerup', () => { if (down) { down = false;
  trigger('submit', {picture: canvas.toDataURL('image/png')}); } });
element.querySelector('button').addEventListener('click', clear);
