/* For those who listen to pages, or use a keyboard: the theme wraps every "copy" button in a navigation landmark, and
   wide tables and pictures scroll where no key reaches them. */
new MutationObserver(() => {
  document.querySelectorAll("nav.md-code__nav").forEach((nav, number) => {
    if (!nav.ariaLabel) nav.ariaLabel = `Copy example ${number + 1}: ${nav.nextElementSibling?.textContent.slice(0, 20)}`;
  });
  document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex]), .md-typeset p:not([tabindex]):has(> img)").forEach((wide) => (wide.tabIndex = 0));
}).observe(document.documentElement, { childList: true, subtree: true });
