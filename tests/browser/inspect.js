// What a test asks of an open page, answered in one go. `known` are the words that may stand in Latin letters
// on a Chinese page; null on others.
async ([known, deadline]) => {
  const until = Date.now() + deadline;
  while (document.querySelector(".htmx-request, [aria-busy=true]") && Date.now() < until) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }

  // --- texts in another language than the page's -------------------------------------------------
  const OTHER = "code, pre, kbd, samp, textarea, data, svg, script, noscript, style, time, .cd-mono, [lang]:not(html), [translate=no]";
  function strangers() {
    const allowed = new Set(known);
    const found = new Map();
    // Words as people write them: what has digits, dots, dashes, inner capitals or is all capitals is a name.
    const check = (text) => {
      // Calls, quotations and words that were cut off are none of ours.
      const ours = text.replace(/\w+\(\)|“[^”]*”/g, "").replace(/\S*(\.\.\.|…)\s*$/, "");
      for (const piece of ours.split(/[^\p{Script=Latin}\p{N}._\-\/:=@+#%&~'’*]+/u)) {
        const word = piece.replace(/^[.:'’/-]+|[.:'’/-]+$/g, "");
        if (/^[A-Za-z][a-z'’]+$/.test(word) && !allowed.has(word.toLowerCase())) {
          found.set(text, [...(found.get(text) || []), word]);
        }
      }
    };
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (node.data.trim() && !node.parentElement.closest(OTHER)) check(node.data);
    }
    for (const name of ["title", "aria-label", "placeholder", "alt", "data-copied", "label"]) {
      for (const element of document.querySelectorAll(`[${name}]`)) {
        if (!element.closest("[lang]:not(html), [translate=no], time, .cd-mono")) check(element.getAttribute(name));
      }
    }
    check(document.title);
    return [...found].map(([text, words]) => `${words.join(", ")} («${text.trim().replace(/\s+/g, " ").slice(0, 120)}»)`);
  }

  const result = await axe.run(document, { resultTypes: ["violations"] });
  return {
    theme: document.documentElement.getAttribute("data-bs-theme"),
    language: document.documentElement.lang,
    title: document.title,
    headings: [...document.querySelectorAll("h1")].map((h) => h.innerText.trim()),
    width: document.documentElement.scrollWidth,
    strangers: known ? strangers() : [],
    violations: result.violations.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200)).join(" | ")}`),
  };
}
