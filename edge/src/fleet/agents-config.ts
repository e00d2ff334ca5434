/**
 * The upstreams as configuration: AGENTS with the keys and tokens that belong to them. Where an agent is reached is written here and
 * nowhere else; no request and no heartbeat can name an address.
 */
import {
  identifierSchema,
  importSigningKey,
  isModelName,
  parseSigningKeys,
  type SigningKey,
  signingKeyIdSchema,
} from "@lockgate/shared-types";
import * as z from "zod";
import { type Parsed, parseJsonVar } from "../config-json.ts";
import type { EnvTexts } from "../env-texts.ts";

/** What fits in one variable. */
export const MAX_AGENTS = 64;
/** Two while one is rotated. */
const MAX_KEYS_OF_AGENT = 2;
const MAX_STATIC_MODELS = 64;
const MAX_WEIGHT = 1_000;
/** A binding leads to its service whatever the URL says; the host here is what that service sees. */
const BINDING_ORIGIN = "http://agent.internal";

/** One upstream. */
export interface Agent {
  readonly name: string;
  /** Base URL with no trailing slash; a request's path and query are appended. */
  readonly url: string;
  /** Name of the service binding that leads to it; undefined for one that is reached by its URL. */
  readonly binding: string | undefined;
  /** The first is signed with; the second where the agent does not know the first. */
  readonly keys: readonly [SigningKey, ...SigningKey[]];
  /** Its share relative to the others'. */
  readonly weight: number;
  /** Models that it serves, for one that sends no heartbeats; undefined: not known. */
  readonly models: readonly string[] | undefined;
  /** Fields that a proxy in front of it asks for; secret. */
  readonly accessHeaders: readonly (readonly [name: string, value: string])[];
}

const isBaseUrl = (text: string): boolean => {
  const url = URL.parse(text);
  return (
    url !== null && /^https?:$/.test(url.protocol) && `${url.username}${url.password}${url.search}${url.hash}` === ""
  );
};

const agentSchema = z
  .strictObject({
    name: identifierSchema,
    url: z
      .string()
      .refine(isBaseUrl, "must be an http(s) URL without credentials, query or fragment")
      .transform((text) => new URL(text).href.replace(/\/+$/, ""))
      .optional(),
    binding: z
      .string()
      .regex(/^[A-Za-z_][A-Za-z0-9_]{0,63}$/)
      .optional(),
    keyIds: z.array(signingKeyIdSchema).min(1).max(MAX_KEYS_OF_AGENT),
    weight: z.number().positive().max(MAX_WEIGHT).default(1),
    models: z.array(z.string().refine(isModelName)).min(1).max(MAX_STATIC_MODELS).optional(),
  })
  .refine(({ url, binding }) => (url === undefined) !== (binding === undefined), "exactly one of url and binding");

const areDifferent = (texts: readonly string[]): boolean => new Set(texts).size === texts.length;

const agentsSchema = z
  .array(agentSchema)
  .max(MAX_AGENTS)
  .refine((agents) => areDifferent(agents.map(({ name }) => name)), "agent names must differ")
  // With a key in common one agent could speak for another, and what was recorded before one be played to the other.
  .refine((agents) => areDifferent(agents.flatMap(({ keyIds }) => keyIds)), "no key may stand twice");

/** Visible ASCII, so that it can be a field's value. */
const tokenPart = z.string().regex(/^[\x21-\x7e]{1,256}$/);
const accessTokensSchema = z.record(identifierSchema, z.strictObject({ clientId: tokenPart, clientSecret: tokenPart }));

/** What a service binding is to the worker. */
export interface ServiceBinding {
  fetch(url: string, init: RequestInit): Promise<Response>;
}

/** The binding of that name; undefined where `env` has none that can be fetched from. */
export const serviceBinding = (env: object, name: string): ServiceBinding | undefined => {
  const value: unknown = (env as Readonly<Record<string, unknown>>)[name];
  const canFetch = typeof value === "object" && value !== null && "fetch" in value && typeof value.fetch === "function";
  return canFetch ? (value as ServiceBinding) : undefined;
};

/** Parses AGENTS, AGENT_SIGNING_KEYS and AGENT_ACCESS_TOKENS. Without AGENTS the list is empty. */
export const parseAgents = async (env: EnvTexts): Promise<Parsed<readonly Agent[]>> => {
  const agents = parseJsonVar("AGENTS", agentsSchema, env.AGENTS ?? "[]");
  if (!agents.ok) return agents;
  const secrets = parseSigningKeys(env.AGENT_SIGNING_KEYS ?? "{}");
  if (!secrets.ok) return { ok: false, hint: `AGENT_SIGNING_KEYS: ${secrets.hint}` };
  const tokens = parseJsonVar("AGENT_ACCESS_TOKENS", accessTokensSchema, env.AGENT_ACCESS_TOKENS ?? "{}");
  if (!tokens.ok) return tokens;
  const known = new Set(agents.value.map(({ name }) => name));
  if (Object.keys(tokens.value).some((name) => !known.has(name)))
    return { ok: false, hint: "AGENT_ACCESS_TOKENS names an agent that AGENTS does not have" };

  const ready: Agent[] = [];
  for (const { name, url, binding, keyIds, weight, models } of agents.value) {
    if (binding !== undefined && serviceBinding(env, binding) === undefined)
      return { ok: false, hint: `AGENTS: the binding of agent ${name} is none of this worker's services` };
    const keys: SigningKey[] = [];
    for (const keyId of keyIds) {
      const secret = secrets.keys.get(keyId);
      if (secret === undefined) return { ok: false, hint: `AGENT_SIGNING_KEYS lacks a key of agent ${name}` };
      keys.push(await importSigningKey(keyId, secret));
    }
    const [first, ...others] = keys;
    if (first === undefined) return { ok: false, hint: `AGENTS: agent ${name} has no key` };
    const token = tokens.value[name];
    ready.push({
      name,
      url: url ?? BINDING_ORIGIN,
      binding,
      keys: [first, ...others],
      weight,
      models,
      // Cloudflare Access, service tokens.
      accessHeaders:
        token === undefined
          ? []
          : [
              ["CF-Access-Client-Id", token.clientId],
              ["CF-Access-Client-Secret", token.clientSecret],
            ],
    });
  }
  return { ok: true, value: ready };
};
