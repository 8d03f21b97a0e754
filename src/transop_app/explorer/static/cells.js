// One stop for the tab key; arrows go from cell to cell, Enter chooses.
const cells = () => [...element.querySelectorAll('[data-cell]')];
const enter = cell => { cells().forEach(other => other.tabIndex = -1); cell.tabIndex = 0; };
element.addEventListener('click', event => {
  const cell = event.target.closest('[data-cell]');
  if (!cell) return;
  cells().forEach(other => other.setAttribute('aria-pressed', other === cell));
  enter(cell);
  trigger('click', {cell: cell.dataset.cell});
});
element.addEventListener('keydown', event => {
  const step = {ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0]};
  const cell = event.target.closest('[data-cell]');
  if (!cell || !step[event.key]) return;
  const [row, column] = cell.dataset.cell.split(',').map(Number);
  const place = `${row + step[event.key][0]},${column + step[event.key][1]}`;
  const next = element.querySelector(`[data-cell="${place}"]`);
  if (next) { enter(next); next.focus(); }
  event.preventDefault();
});
