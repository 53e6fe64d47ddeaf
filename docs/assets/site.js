/* The theme wraps every "copy" button in a navigation landmark: a group is what it is, for those who listen to pages. */
new MutationObserver(() => {
  document.querySelectorAll("nav.md-code__nav:not([role])").forEach((nav) => nav.setAttribute("role", "group"));
}).observe(document.documentElement, { childList: true, subtree: true });
