// Shows one step of an episode at a time; without it all steps are listed below one another.
for (const list of document.querySelectorAll('.steps')) {
  const steps = [...list.children];
  if (steps.length < 2) continue;
  const bar = document.createElement('div');
  bar.className = 'stepper';
  const button = (text, label) => {
    const made = document.createElement('button');
    made.type = 'button';
    made.textContent = text;
    made.setAttribute('aria-label', label);
    return made;
  };
  const back = button('\u2190', 'previous step');
  const next = button('\u2192', 'next step');
  const range = document.createElement('input');
  const place = document.createElement('output');
  range.type = 'range';
  range.min = 0;
  range.max = steps.length - 1;
  range.setAttribute('aria-label', 'step');
  let at = 0;
  const show = (wanted) => {
    at = Math.min(Math.max(wanted, 0), steps.length - 1);
    steps.forEach((step, index) => { step.hidden = index !== at; });
    range.value = at;
    place.textContent = `${at + 1} of ${steps.length}`;
    back.disabled = at === 0;
    next.disabled = at === steps.length - 1;
  };
  back.addEventListener('click', () => show(at - 1));
  next.addEventListener('click', () => show(at + 1));
  range.addEventListener('input', () => show(Number(range.value)));
  bar.append(back, next, range, place);
  list.before(bar);
  show(0);
}
