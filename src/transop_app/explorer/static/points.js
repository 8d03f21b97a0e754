// A click on a point of the map chooses its image.
element.addEventListener('click', event => {
  const point = event.target.closest('[data-point]');
  if (point) trigger('click', {point: Number(point.dataset.point)});
});
