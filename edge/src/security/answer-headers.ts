/**
 * Header fields that every answer of the edge has, whoever made its body. Pure: it changes the Headers that it is given and nothing else.
 *
 * An API is for programs. These fields are for the day on which a browser is made to open one of its answers:
 * - nosniff: what a model wrote is no script and no page, whatever it looks like;
 * - content-security-policy: even a page from a misled agent loads nothing, runs nothing and stands in no frame;
 * - referrer-policy: an address of this API, with its query, is nobody else's business;
 * - cache-control: answers are one caller's own, so without another word nobody keeps them, and nobody keeps an error at all;
 * - strict-transport-security, over HTTPS only (RFC 6797 section 7.2 forbids it elsewhere): a key must not go out in the clear once. For
 *   this host alone, for the names below it are not ours to speak for.
 */

const HSTS_MAX_AGE_S = 31_536_000;

const fields = [
  ["x-content-type-options", "nosniff"],
  ["content-security-policy", "default-src 'none'; frame-ancestors 'none'; sandbox"],
  ["referrer-policy", "no-referrer"],
] as const;

/** Adds them to the headers of an answer with that status. */
export const addAnswerHeaders = (headers: Headers, status: number, isHttps: boolean): void => {
  for (const [name, value] of fields) headers.set(name, value);
  if (isHttps) headers.set("strict-transport-security", `max-age=${HSTS_MAX_AGE_S}`);
  if (status >= 400 || !headers.has("cache-control")) headers.set("cache-control", "no-store");
};
