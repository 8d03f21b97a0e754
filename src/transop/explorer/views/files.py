"""A field for files. They go straight to the server's memory; Gradio's own uploads are closed."""

from __future__ import annotations

from html import escape

import gradio as gr

from transop.data.picture import EXTENSIONS
from transop.explorer.uploads import LARGEST_FILE

# Sends each file, then tells the server the tokens it got for them.
_SEND = """
const field = element.querySelector('input[type=file]'), go = element.querySelector('button');
const status = element.querySelector('[role=status]'), largest = LARGEST;
const say = words => { status.textContent = words; };
const one = async file => {
  if (file.size > largest) throw new Error(`'${file.name}' is larger than ${largest >> 20} MB.`);
  const answer = await fetch(new URL('uploads', document.baseURI), {method: 'POST', body: file,
    headers: {'Content-Type': 'application/octet-stream'}});
  const told = await answer.json();
  if (!answer.ok) throw new Error(told.detail);
  return {name: file.name, token: told.token};
};
const send = async () => {
  const files = [...field.files], sent = [];
  if (!files.length) { say('Choose a file first.'); return; }
  try {
    for (const file of files) { say(`Sending ${file.name} ...`); sent.push(await one(file)); }
    say('');
    trigger('submit', {files: sent});
  } catch (error) { say(`Not possible: ${error.message}`); }
  if (!go) field.value = '';
};
field.addEventListener('change', () => {
  if (!go) { send(); return; }
  say([...field.files].slice(0, 5).map(file => file.name).join(', ')
    + (field.files.length > 5 ? ' and more' : ''));
});
if (go) go.addEventListener('click', send);
"""


def file_field(key: str, words: str, *, button: str = "", zips: bool = False) -> gr.HTML:
    """Lay out a field for files; its event ``submit`` lists what was sent.

    Args:
        key: the element's name in the page.
        words: what to choose.
        button: if given, several files may be chosen and are sent when this button is pressed;
            otherwise one file is sent as soon as it is chosen.
        zips: whether zips are welcome too.
    """
    kinds = ",".join([*sorted(EXTENSIONS), *([".zip"] if zips else [])])
    several = " multiple" if button else ""
    text = (
        f'<label class="tp-file">{escape(words)}'
        f'<input type="file" accept="{kinds}"{several}></label><p role="status"></p>'
    )
    if button:
        text += f'<button type="button" class="tp-go">{escape(button)}</button>'
    script = _SEND.replace("LARGEST", str(LARGEST_FILE))
    return gr.HTML(html_template=text, js_on_load=script, elem_id=key)
