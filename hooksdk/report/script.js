"use strict";
for (const form of document.querySelectorAll(".filter")) {
  const name = form.querySelector(".by-tool"), outcome = form.querySelector(".by-outcome");
  const timeline = form.parentElement.querySelector(".timeline");
  const apply = () => {
    const wanted = name.value.trim().toLowerCase(), on = wanted !== "" || outcome.value !== "";
    let shown = 0, all = 0;
    for (const step of timeline.querySelectorAll(".steps > li")) {
      const tool = step.dataset.tool;
      const fits = tool !== undefined && tool.toLowerCase().includes(wanted)
        && (outcome.value === "" || step.dataset.outcome === outcome.value);
      step.hidden = on && !fits;
      all += tool !== undefined;
      shown += fits;
    }
    for (const group of timeline.querySelectorAll(".group")) {
      const some = group.querySelector(".steps > li:not([hidden])") !== null;
      group.hidden = !some;
      if (on) group.open = some;
    }
    form.querySelector(".found").textContent = on ? `${shown} of ${all} calls` : "";
  };
  name.addEventListener("input", apply);
  outcome.addEventListener("change", apply);
  form.hidden = false;
}
