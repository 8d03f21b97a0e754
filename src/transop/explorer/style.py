"""The look of the page: small images large and crisp, readable on a phone, light and dark."""

STYLE = """
:root { --tp-alarm: #b3261e; --tp-band: var(--color-accent); }
.dark { --tp-alarm: #ff8a80; }
.gradio-container { --block-info-text-color: var(--neutral-500);
  --body-text-color-subdued: var(--neutral-500); }
.dark .gradio-container { --block-info-text-color: var(--neutral-300);
  --body-text-color-subdued: var(--neutral-300); }
.gradio-container { width: 100%; max-width: 1180px !important; margin: 0 auto; }
@media (max-width: 600px) { .gradio-container .fillable { padding: 8px !important; } }
.tp-operator { --tp-from: 50%; --tp-to: 50%; outline-offset: -2px; }
.tp-operator input[type=range]::-webkit-slider-runnable-track {
  background: linear-gradient(to right,
  var(--border-color-primary) var(--tp-from), var(--tp-band) var(--tp-from),
  var(--tp-band) var(--tp-to), var(--border-color-primary) var(--tp-to)) !important; }
.tp-operator input[type=range]::-moz-range-track {
  background: linear-gradient(to right,
  var(--border-color-primary) var(--tp-from), var(--tp-band) var(--tp-from),
  var(--tp-band) var(--tp-to), var(--border-color-primary) var(--tp-to)) !important; }
.tp-operator input[type=range]::-moz-range-progress { background: none !important; }
.tp-operator input[type=range]::-webkit-slider-thumb { border: 2px solid var(--tp-band); }
.tp-pick { align-items: center; }
.tp-large, .tp-small { image-rendering: pixelated; display: block; background: #888; }
.tp-large { width: 260px; max-width: 100%; aspect-ratio: 1; }
.tp-small { width: 64px; height: 64px; max-width: none; }
.tp-medium { image-rendering: pixelated; width: 140px; height: 140px; margin-top: 12px; }
figure { margin: 0; width: fit-content; }
figcaption { font-size: .85em; text-align: center; min-height: 1.3em; }
.tp-pair { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 12px;
  margin: 8px 0; }
.tp-pair figure { justify-items: center; display: grid; width: 100%; }
.tp-strip { display: flex; gap: 6px; overflow-x: auto; padding: 3px 3px 8px; }
.tp-strip figure { flex: 1 0 46px; max-width: 76px; }
.tp-strip figcaption { white-space: pre-line; line-height: 1.25; }
.tp-strip .tp-small { width: 100%; height: auto; aspect-ratio: 1; }
.tp-marked img { outline: 3px solid var(--color-accent); }
.tp-title { font-weight: 600; margin: 10px 0 4px !important; }
.tp-notice { border-left: 4px solid var(--border-color-primary); padding: 4px 10px !important;
  margin: 6px 0 !important; }
.tp-missing { border-color: var(--color-accent); opacity: .9; }
.tp-beyond { border-color: var(--tp-alarm); color: var(--tp-alarm) !important; font-weight: 600; }
.tp-bars { display: grid; grid-template-columns: fit-content(8em) 1fr auto; gap: 3px 8px;
  align-items: center; line-height: 1.3; }
.tp-bars > div { display: contents; }
.tp-bars span { overflow-wrap: anywhere; }
.tp-bars div div { background: var(--border-color-primary); height: 11px; border-radius: 3px; }
.tp-bars i { display: block; height: 100%; border-radius: 3px; background: var(--color-accent); }
.tp-bars b { font-weight: 400; font-variant-numeric: tabular-nums; text-align: right;
  min-width: 3em; }
.tp-curve { width: 100%; max-width: 760px; height: auto; display: block; }
.tp-curve path { fill: none; stroke: currentColor; stroke-opacity: .45; }
.tp-curve text { fill: currentColor; font-size: 13px; }
.tp-curve polyline { fill: none; stroke-width: 2.5; }
.tp-curve .tp-dashed { stroke-dasharray: 6 5; }
.tp-columns { display: grid; gap: 6px 28px; align-items: start;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); }
.tp-scale { display: flex; flex-wrap: wrap; gap: 4px 10px; align-items: center; font-size: .9em; }
.tp-scale i { width: 140px; height: 12px; border-radius: 3px; }
.tp-legend { display: flex; flex-wrap: wrap; gap: 4px 16px; font-size: .9em; }
.tp-legend i { display: inline-block; width: 26px; margin-right: 6px; vertical-align: middle; }
.tp-save { display: inline-block; padding: 6px 14px; margin: 6px 8px 6px 0; border-radius: 6px;
  border: 1px solid var(--border-color-primary);
  background: var(--button-secondary-background-fill);
  color: var(--body-text-color) !important; text-decoration: none !important; }
.tp-table { border-collapse: collapse; width: 100%; }
.tp-table, .tp-table *, .tp-heat, .tp-heat * { border: none !important; }
.tp-table th, .tp-table td {
  border: none !important; text-align: left; padding: 3px 10px 3px 0; vertical-align: top;
  border-bottom: 1px solid var(--border-color-primary) !important; overflow-wrap: anywhere; }
.tp-table th { font-weight: 400; width: 55%; }
details { margin-top: 12px; } details .tp-table th { width: 25%; }
summary { cursor: pointer; font-weight: 600; }
.tp-tools { display: flex; gap: 12px; align-items: center; margin-top: 6px; }
.tp-tools button { padding: 4px 14px; border: 1px solid var(--border-color-primary);
  border-radius: 6px; cursor: pointer; }
canvas { width: min(100%, 280px); aspect-ratio: 1; touch-action: none; cursor: crosshair;
  border: 1px solid var(--neutral-500); }
.tp-map { width: 100%; max-width: 620px; height: auto; touch-action: manipulation; }
.tp-map circle { cursor: pointer; }
.tp-heat { border-collapse: separate; border-spacing: 2px; } .tp-heat td { padding: 0; }
.tp-heat th { font-weight: 400; font-size: .85em; padding: 0 8px; text-align: center; }
.tp-heat th:first-child { position: sticky; left: 0; text-align: right; max-width: 8em;
  background: var(--body-background-fill); }
.tp-heat button { width: 100%; min-width: 40px; height: 30px; cursor: pointer;
  border-radius: 3px !important; font-size: .8em; font-weight: 400 !important; }
.tp-heat button[aria-pressed=true] { outline: 3px solid var(--color-accent); }
.tp-wide { overflow-x: auto; }
:focus-visible { outline: 2px solid var(--color-accent); outline-offset: 1px; }
.tp-heat button:focus-visible { outline: 3px solid currentColor; outline-offset: -4px; }
#transformed { position: sticky; top: 6px; z-index: 2; background: var(--body-background-fill); }
@media (max-width: 700px) {
  #transform-view > .column:first-child { display: contents; }
  #transformed { top: 0; order: 1; }
  #transform-view > .column:last-child { order: 2; }
  #transformed .tp-large { width: 124px; }
  #transformed .tp-bars { grid-template-columns: repeat(2, fit-content(8em) 1fr auto);
    font-size: .8em; gap: 1px 6px; }
  .tp-curve text { font-size: 24px; }
}
"""
