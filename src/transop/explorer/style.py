"""The look of the page: small images large and crisp, readable on a phone, light and dark."""

STYLE = """
:root { --tp-alarm: #b3261e; }
.dark { --tp-alarm: #ff8a80; }
.gradio-container { width: 100%; max-width: 1180px !important; margin: 0 auto; }
@media (max-width: 600px) { .gradio-container .fillable { padding: 8px !important; } }
.tp-operator { --tp-from: 50%; --tp-to: 50%; }
.tp-operator input[type=range]::-webkit-slider-runnable-track {
  background: linear-gradient(to right,
  var(--border-color-primary) var(--tp-from), var(--color-accent) var(--tp-from),
  var(--color-accent) var(--tp-to), var(--border-color-primary) var(--tp-to)) !important; }
.tp-operator input[type=range]::-moz-range-track {
  background: linear-gradient(to right,
  var(--border-color-primary) var(--tp-from), var(--color-accent) var(--tp-from),
  var(--color-accent) var(--tp-to), var(--border-color-primary) var(--tp-to)) !important; }
.tp-operator input[type=range]::-moz-range-progress { background: none !important; }
.tp-operator input[type=range]::-webkit-slider-thumb { border: 2px solid var(--color-accent); }
.tp-large, .tp-small { image-rendering: pixelated; display: block; background: #888; }
.tp-large { width: 260px; max-width: 100%; aspect-ratio: 1; }
.tp-small { width: 64px; height: 64px; max-width: none; }
.tp-medium { image-rendering: pixelated; width: 140px; height: 140px; }
figure { margin: 0; width: fit-content; }
figcaption { font-size: .85em; text-align: center; min-height: 1.3em; }
.tp-pair { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 12px;
  margin: 8px 0; }
.tp-pair figure { justify-items: center; display: grid; width: 100%; }
.tp-strip { display: flex; gap: 6px; overflow-x: auto; padding: 3px 3px 8px; }
.tp-strip figure { flex: none; }
.tp-marked img { outline: 3px solid var(--color-accent); }
.tp-title { font-weight: 600; margin: 10px 0 4px !important; }
.tp-notice { border-left: 4px solid var(--border-color-primary); padding: 4px 10px !important;
  margin: 6px 0 !important; }
.tp-missing { border-color: var(--color-accent); opacity: .9; }
.tp-beyond { border-color: var(--tp-alarm); color: var(--tp-alarm) !important; font-weight: 600; }
.tp-bar { display: grid; grid-template-columns: minmax(3em, 8em) 1fr 3.5em; gap: 8px;
  align-items: center; line-height: 1.35; }
.tp-bar span { text-align: right; overflow-wrap: anywhere; }
.tp-bar div { background: var(--border-color-primary); height: 11px; border-radius: 3px; }
.tp-bar i { display: block; height: 100%; border-radius: 3px; background: var(--color-accent); }
.tp-bar b { font-weight: 400; font-variant-numeric: tabular-nums; }
.tp-curve { width: 100%; max-width: 760px; height: auto; display: block; }
.tp-legend { display: flex; flex-wrap: wrap; gap: 4px 16px; font-size: .9em; }
.tp-legend i { display: inline-block; width: 26px; margin-right: 6px; vertical-align: middle; }
.tp-save { display: inline-block; padding: 6px 14px; margin: 6px 8px 6px 0; border-radius: 6px;
  border: 1px solid var(--border-color-primary);
  background: var(--button-secondary-background-fill);
  color: var(--body-text-color) !important; text-decoration: none !important; }
.tp-table { border-collapse: collapse; width: 100%; }
.tp-table th, .tp-table td {
  border: none !important; text-align: left; padding: 3px 10px 3px 0; vertical-align: top;
  border-bottom: 1px solid var(--border-color-primary) !important; overflow-wrap: anywhere; }
.tp-table th { font-weight: 600; width: 34%; }
.tp-tools { display: flex; gap: 12px; align-items: center; margin-top: 6px; }
.tp-tools button { padding: 4px 14px; border: 1px solid var(--border-color-primary);
  border-radius: 6px; cursor: pointer; }
canvas { width: min(100%, 280px); aspect-ratio: 1; touch-action: none; cursor: crosshair;
  border: 1px solid var(--border-color-primary); }
.tp-map { width: 100%; max-width: 620px; height: auto; touch-action: manipulation; }
.tp-map circle { cursor: pointer; }
.tp-heat { border-collapse: collapse; } .tp-heat td { padding: 0; }
.tp-heat th { font-weight: 400; font-size: .85em; padding: 0 6px; text-align: right; }
.tp-heat button { width: 100%; min-width: 34px; height: 30px; border: 1px solid transparent;
  cursor: pointer; font-size: .75em; }
.tp-wide { overflow-x: auto; }
:focus-visible { outline: 2px solid var(--color-accent); outline-offset: 1px; }
"""
