"""The look of the page: small images large and crisp, readable on a phone, light and dark."""

_PAGE = """
:root { --tp-alarm: #b3261e; --tp-band: var(--primary-500); }
.dark { --tp-alarm: #ff8a80; }
.gradio-container { --block-info-text-color: var(--neutral-500);
  --body-text-color-subdued: var(--neutral-500); }
.dark .gradio-container { --block-info-text-color: var(--neutral-300);
  --body-text-color-subdued: var(--neutral-300); }
.gradio-container { width: 100%; max-width: 1180px !important; margin: 0 auto; }
.gradio-container .fillable { max-width: 100% !important; padding: 16px 24px !important; }
.gradio-container .html-container { padding: 0 !important; }
.gradio-container button.lg { font-weight: 500; }
.gradio-container h1 { margin: 0 0 2px; }
.tp-facts { color: var(--body-text-color-subdued) !important; margin: 0 !important; }
:focus-visible { outline: 2px solid var(--color-accent); outline-offset: 1px; }
@media (max-width: 600px) { .gradio-container .fillable { padding: 10px !important; } }
"""

_PICTURES = """
.tp-large, .tp-small, .tp-medium { image-rendering: pixelated; display: block;
  background: #888; margin: 0 !important; border-radius: 3px; }
.tp-large { width: 260px; max-width: 100%; aspect-ratio: 1; }
.tp-small { width: 64px; height: 64px; max-width: none; }
.tp-medium { width: 140px; height: 140px; }
.gradio-container figure { margin: 0; width: fit-content; max-width: 100%; }
.gradio-container figcaption { font-size: .85em; text-align: center; min-height: 1.3em;
  margin-top: 2px; color: var(--body-text-color-subdued); }
.tp-pair { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 12px;
  margin: 0 0 8px; }
.tp-pair figure { width: 100%; }
.tp-pair .tp-large { width: 100%; max-width: 300px; margin: 0 auto !important; }
.tp-strip { display: flex; gap: 6px; overflow-x: auto; padding: 3px 3px 8px; margin: 0 -3px; }
.tp-strip figure { flex: 1 0 46px; max-width: 84px; }
.tp-strip figcaption { white-space: pre-line; line-height: 1.25; }
.tp-strip .tp-small { width: 100%; height: auto; aspect-ratio: 1; }
.tp-marked { outline: 3px solid var(--color-accent); }
.tp-sheet { max-width: 100%; border-radius: 3px; }
.tp-moving { display: flex; flex-wrap: wrap; gap: 8px; align-items: end; margin-top: 12px; }
canvas { width: min(100%, 220px); aspect-ratio: 1; touch-action: none; cursor: crosshair;
  border: 1px solid var(--neutral-500); border-radius: 3px; }
.tp-file { display: block; padding: 14px; border: 2px dashed var(--border-color-primary);
  border-radius: 6px; cursor: pointer; }
.tp-file:focus-within { border-color: var(--color-accent); }
.gradio-container .tp-file input { display: block; margin-top: 8px; max-width: 100%; padding: 0;
  border: none; background: none; box-shadow: none; font-size: .9em; }
.tp-file input::file-selector-button { padding: 6px 14px; margin-right: 10px; cursor: pointer;
  border: 1px solid var(--border-color-primary); border-radius: 6px;
  background: var(--button-secondary-background-fill); color: var(--body-text-color); }
.tp-go { padding: 8px 24px; border-radius: 6px; cursor: pointer; color: #fff !important;
  background: var(--button-primary-background-fill); font-weight: 500 !important; }
.tp-tools { display: flex; gap: 12px; align-items: center; margin-top: 6px; }
.tp-tools button { padding: 4px 14px; border: 1px solid var(--border-color-primary);
  border-radius: 6px; cursor: pointer; }
"""

_WORDS = """
.tp-title { font-weight: 600; margin: 10px 0 4px !important; }
.tp-notice { border-left: 4px solid var(--border-color-primary); padding: 2px 10px !important;
  margin: 4px 0 !important; }
.tp-missing { border-color: var(--color-accent); }
.tp-beyond { border-color: var(--tp-alarm); color: var(--tp-alarm) !important; font-weight: 600; }
.tp-save { display: inline-block; padding: 6px 14px; border-radius: 6px;
  border: 1px solid var(--border-color-primary);
  background: var(--button-secondary-background-fill);
  color: var(--body-text-color) !important; text-decoration: none !important; }
.tp-saves { display: flex; flex-wrap: wrap; gap: 8px; margin: 8px 0 12px; }
.tp-table { border-collapse: collapse; width: 100%; margin: 0 !important; }
.tp-table, .tp-table *, .tp-heat, .tp-heat * { border: none !important; }
.tp-table th, .tp-table td {
  border: none !important; text-align: left; padding: 3px 10px 3px 0; vertical-align: top;
  border-bottom: 1px solid var(--border-color-primary) !important; overflow-wrap: anywhere; }
.tp-table th { font-weight: 400; width: 62%; color: var(--body-text-color-subdued); }
.tp-table td { font-variant-numeric: tabular-nums; }
details { margin-top: 12px; } details .tp-table th { width: 25%; }
summary { cursor: pointer; font-weight: 600; }
.tp-wide { overflow-x: auto; }
.tp-columns { columns: 2 400px; column-gap: 32px; margin: 6px 0 14px; }
.tp-columns section { break-inside: avoid; padding-bottom: 16px; }
.tp-columns .tp-title { margin-top: 0 !important; }
.tp-columns h3 { margin: 0 0 2px; }
"""

_DRAWINGS = """
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
.dark .tp-curve polyline { filter: brightness(1.4); }
.tp-curve .tp-dashed { stroke-dasharray: 6 5; }
.tp-scale { display: flex; flex-wrap: wrap; gap: 4px 10px; align-items: center; font-size: .9em;
  margin: 6px 0; }
.tp-scale i { width: 140px; height: 12px; border-radius: 3px; }
.tp-legend { display: flex; flex-wrap: wrap; gap: 4px 16px; font-size: .9em; margin: 6px 0; }
.tp-legend i { display: inline-block; width: 26px; margin-right: 6px; vertical-align: middle; }
.tp-map { width: 100%; max-width: 680px; height: auto; touch-action: manipulation; }
.tp-map circle { cursor: pointer; }
.tp-map circle[data-point] { stroke: var(--body-background-fill); stroke-width: 1; }
.tp-heat { border-collapse: separate; border-spacing: 2px; margin: 0 !important; }
.tp-heat td { padding: 0; }
.tp-heat th { font-weight: 400; font-size: .85em; padding: 0 8px; text-align: center; }
.tp-heat th:first-child { position: sticky; left: 0; text-align: right; max-width: 8em;
  background: var(--body-background-fill); }
.tp-heat button { width: 100%; min-width: 44px; height: 32px; cursor: pointer;
  border-radius: 3px !important; font-size: .85em; font-weight: 400 !important; }
.tp-heat button[aria-pressed=true] { outline: 3px solid var(--color-accent); }
.tp-heat button:focus-visible { outline: 3px solid currentColor; outline-offset: -4px; }
"""

_SLIDERS = """
.gradio-container input[type=range]::-webkit-slider-thumb { border: 2px solid var(--primary-600); }
.tp-operator { --tp-from: 50%; --tp-to: 50%; outline-offset: -2px;
  padding: 7px 12px !important; }
.tp-operator input { --tp-track: linear-gradient(to right,
  var(--border-color-primary) var(--tp-from), var(--tp-band) var(--tp-from),
  var(--tp-band) var(--tp-to), var(--border-color-primary) var(--tp-to)); }
.tp-operator .head { margin-bottom: 3px; align-items: center; }
.tp-operator .head label { display: flex; flex-wrap: wrap; gap: 0 10px; align-items: baseline; }
.tp-operator .head label::after { content: var(--tp-words); font-size: var(--text-sm);
  color: var(--body-text-color-subdued); }
.tp-operator .head label span { color: var(--body-text-color); font-weight: 500; margin: 0; }
.tp-operator .tab-like-container, .tp-operator input[type=number] { width: 84px; flex: none; }
.tp-operator .slider_input_container > span { min-width: 2.6em; }
.tp-operator .slider_input_container > span:first-child { text-align: right; }
.tp-operator input[type=range]::-webkit-slider-runnable-track {
  background: var(--tp-track) !important; }
.tp-operator input[type=range]::-moz-range-track { background: var(--tp-track) !important; }
.tp-operator input[type=range]::-moz-range-progress { background: none !important; }
.gradio-container .tp-operator input[type=range]::-webkit-slider-thumb {
  border-color: var(--tp-band); }
"""

_VIEWS = """
#path { display: none; }
.tp-pick { align-items: center; }
.tp-end { flex-wrap: nowrap; align-items: flex-start; }
.tp-end > .block { flex: 0 0 158px; }
.tp-end .tp-large { width: 158px; }
#surprises .tp-strip { display: grid; grid-template-columns: repeat(8, minmax(0, 84px)); }
#surprises .tp-strip figure { width: 100%; }
#transformed .tp-large { max-width: 240px; }
#stage { position: sticky; top: 6px; z-index: 2; background: var(--body-background-fill);
  gap: 10px; }
@media (max-width: 700px) {
  #transform-view > .column:first-child, #stage { display: contents; }
  #transformed { position: sticky; top: 0; z-index: 2; order: 1; padding-bottom: 4px !important;
    background: var(--body-background-fill); }
  #transform-view > .column:last-child { order: 2; }
  #transform-buttons { order: 3; flex-wrap: nowrap; }
  #surprises { order: 4; }
  #surprises .tp-strip { grid-template-columns: repeat(4, minmax(0, 84px)); }
  #transformed .tp-large { width: 124px; }
  #transformed .tp-bars { grid-template-columns: repeat(2, fit-content(8em) 1fr auto);
    font-size: .8em; gap: 1px 6px; }
  .tp-end > .block { flex-basis: 104px; }
  .tp-end .tp-large { width: 104px; }
  .tp-end .tp-chooser .tab-container button { padding: 0 10px; }
  .tp-moving .tp-medium { width: 104px; height: 104px; }
  #transformed .tp-bars b { padding-right: 6px; }
  .tp-curve text { font-size: 21px; }
}
"""

STYLE = _PAGE + _PICTURES + _WORDS + _DRAWINGS + _SLIDERS + _VIEWS
