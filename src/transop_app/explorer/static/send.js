// Sends each file, then tells the server the tokens it got for them.
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
