// format.js - numbers as people read them.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(n) {
  let i = 0;
  while (n >= 1024 && i < UNITS.length - 1) {
    n /= 1024;
    i++;
  }
  return `${i && n < 100 ? n.toFixed(1) : Math.round(n)} ${UNITS[i]}`;
}

export function count(n) {
  return Math.round(n).toLocaleString("en");
}

export function percent(part, whole) {
  return whole ? `${Math.round(100 * part / whole)} %` : "0 %";
}

export function seconds(s) {
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  return s < 100 ? `${s.toFixed(1)} s` : `${Math.round(s)} s`;
}

// "1 chunk", "2 chunks"
export function several(n, word) {
  return `${count(n)} ${word}${n === 1 ? "" : "s"}`;
}
