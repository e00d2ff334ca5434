/** Reads Prometheus' text format (version 0.0.4) back, strictly: a line that is none fails the test. */

export interface Scrape {
  /** Value of one series, e.g. `value("a_total", { replica: "0" })`; throws where there is none. */
  value(name: string, labels?: Readonly<Record<string, string>>): number;
  readonly series: ReadonlyArray<{ readonly name: string; readonly labels: Readonly<Record<string, string>> }>;
  /** `counter`, `gauge` or `histogram` by family. */
  readonly types: ReadonlyMap<string, string>;
}

const sample = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (-?\d+(?:\.\d+)?(?:e[+-]\d+)?|\+Inf|NaN)$/;
const label = /([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)/gy;

const keyOf = (name: string, labels: Readonly<Record<string, string>>): string =>
  JSON.stringify([name, Object.entries(labels).toSorted(([a], [b]) => (a < b ? -1 : 1))]);

export const parseScrape = (text: string): Scrape => {
  const values = new Map<string, number>();
  const series: { name: string; labels: Record<string, string> }[] = [];
  const types = new Map<string, string>();
  for (const line of text.split("\n")) {
    const [, family = "", type = ""] = /^# TYPE (\S+) (counter|gauge|histogram)$/.exec(line) ?? [];
    if (family !== "") {
      if (types.has(family)) throw new Error(`${family} comes twice`);
      types.set(family, type);
    }
    if (line === "" || family !== "" || /^# HELP \S+ \S/.test(line)) continue;
    const [, name = "", inside = "", value = ""] = sample.exec(line) ?? [];
    if (name === "") throw new Error(`no line of the text format: ${line}`);
    const found = [...inside.matchAll(label)];
    if (found.reduce((length, [whole]) => length + whole.length, 0) !== inside.length) {
      throw new Error(`labels that do not parse: ${line}`);
    }
    const labels = Object.fromEntries(found.map(([, key = "", text = ""]) => [key, text]));
    if (values.has(keyOf(name, labels))) throw new Error(`a series comes twice: ${line}`);
    values.set(keyOf(name, labels), value === "+Inf" ? Number.POSITIVE_INFINITY : Number(value));
    series.push({ name, labels });
  }
  return {
    series,
    types,
    value: (name, labels = {}) => {
      const value = values.get(keyOf(name, labels));
      if (value === undefined) throw new Error(`there is no ${name} with ${JSON.stringify(labels)}`);
      return value;
    },
  };
};
