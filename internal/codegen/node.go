package codegen

import (
	"bytes"
	"fmt"
)

// nodeCodes writes constants as objects, not as enums: a word from the wire then is of the type
// without a cast, and nothing but types has to be erased to run the file.
func nodeCodes(c Codes) []byte {
	var b bytes.Buffer
	p := func(f string, args ...any) { fmt.Fprintf(&b, f+"\n", args...) }
	p("// %s\n", warning)
	p("/** Message types, codes and retry rules of the worker protocol. */\n")
	p("export const SUBPROTOCOL = %q;", c.Subprotocol)
	p("export const RECONNECT_FIRST_MS = %d;\nexport const RECONNECT_MAX_MS = %d;\nexport const RECONNECT_GIVE_UP_MS = %d;\n",
		c.Retry.First, c.Retry.Max, c.Retry.GiveUp)
	nodeWords(p, "MessageType", c.Messages, func(m Message) (string, any) { return m.Type, m.Type })
	nodeWords(p, "FrameKind", c.FrameKinds, func(k FrameKind) (string, any) { return k.Name, k.Kind })
	nodeWords(p, "FrameFlag", c.FrameFlags, func(f FrameFlag) (string, any) { return f.Name, f.Bit })
	nodeWords(p, "Code", c.ErrorCodes, func(e ErrorCode) (string, any) { return e.Code, e.Code })
	nodeWords(p, "CloseCode", c.CloseCodes, func(e CloseCode) (string, any) { return e.Name, e.Code })
	nodeWords(p, "HttpRefusal", c.HTTPRefusals, func(e Refusal) (string, any) { return e.Name, e.Status })
	p("/** Codes whose request may succeed later without a change by the user. */\nexport const RETRIABLE: ReadonlySet<string> = new Set([")
	for _, e := range c.ErrorCodes {
		if e.Retriable {
			p("  %q,", e.Code)
		}
	}
	p("]);\n\n/** Close codes after which a worker does not reconnect. Any other code: it does. */\nexport const NO_RECONNECT: ReadonlySet<number> = new Set([%s]);",
		joined(c.CloseCodes, func(e CloseCode) (int, bool) { return e.Code, !e.Reconnect }))
	p("\n/** HTTP statuses of a refused handshake after which a worker does not reconnect. */\nexport const NO_RECONNECT_HTTP: ReadonlySet<number> = new Set([%s]);\n",
		joined(c.HTTPRefusals, func(e Refusal) (int, bool) { return e.Status, !e.Reconnect }))
	nodeMeanings(p, "CODE_MEANINGS", "string", c.ErrorCodes, func(e ErrorCode) (any, string) { return e.Code, e.Meaning })
	nodeMeanings(p, "CLOSE_MEANINGS", "number", c.CloseCodes, func(e CloseCode) (any, string) { return e.Code, e.Meaning })
	nodeMeanings(p, "HTTP_MEANINGS", "number", c.HTTPRefusals, func(e Refusal) (any, string) { return e.Status, e.Meaning })
	return append(bytes.TrimRight(b.Bytes(), "\n"), '\n')
}

// nodeWords writes a constant with a member for each row, and the type of its values.
func nodeWords[T any](p func(string, ...any), name string, rows []T, word func(T) (string, any)) {
	p("export const %s = {", name)
	for _, r := range rows {
		n, value := word(r)
		p("  %s: %s,", camel(n), literal(value))
	}
	p("} as const;\nexport type %s = (typeof %s)[keyof typeof %s];\n", name, name, name)
}

// nodeMeanings writes a map, so that no word from outside finds a member of Object.
func nodeMeanings[T any](p func(string, ...any), name, key string, rows []T, meaning func(T) (any, string)) {
	p("export const %s: ReadonlyMap<%s, string> = new Map([", name, key)
	for _, r := range rows {
		k, m := meaning(r)
		p("  [%s, %q],", literal(k), m)
	}
	p("]);\n")
}

func literal(value any) string {
	if s, ok := value.(string); ok {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprint(value)
}
