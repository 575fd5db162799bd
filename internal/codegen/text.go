package codegen

import (
	"bytes"
	"fmt"
	"strings"
)

func pythonCodes(c Codes) []byte {
	var b bytes.Buffer
	p := func(f string, args ...any) { fmt.Fprintf(&b, f+"\n", args...) }
	p("# %s", warning)
	p(`"""Message types, codes and retry rules of the worker protocol."""

from enum import IntEnum, IntFlag, StrEnum
from typing import Final

SUBPROTOCOL: Final = %q
RECONNECT_FIRST_MS: Final = %d
RECONNECT_MAX_MS: Final = %d
RECONNECT_GIVE_UP_MS: Final = %d
`, c.Subprotocol, c.Retry.First, c.Retry.Max, c.Retry.GiveUp)
	p("\nclass MessageType(StrEnum):")
	for _, m := range c.Messages {
		p("    %s = %q", strings.ToUpper(m.Type), m.Type)
	}
	p("\n\nclass FrameKind(IntEnum):")
	for _, k := range c.FrameKinds {
		p("    %s = %d", strings.ToUpper(k.Name), k.Kind)
	}
	p("\n\nclass FrameFlag(IntFlag):")
	for _, k := range c.FrameFlags {
		p("    %s = %d", strings.ToUpper(k.Name), k.Bit)
	}
	p("\n\nclass Code(StrEnum):")
	for _, e := range c.ErrorCodes {
		p("    %s = %q", strings.ToUpper(e.Code), e.Code)
	}
	p("\n\nclass CloseCode(IntEnum):")
	for _, e := range c.CloseCodes {
		p("    %s = %d", strings.ToUpper(e.Name), e.Code)
	}
	p("\n\nclass HttpRefusal(IntEnum):")
	for _, e := range c.HTTPRefusals {
		p("    %s = %d", strings.ToUpper(e.Name), e.Status)
	}
	pythonTables(p, c)
	return b.Bytes()
}

func pythonTables(p func(string, ...any), c Codes) {
	p("\n\n# Codes whose request may succeed later without a change by the user.\nRETRIABLE: Final[frozenset[str]] = frozenset(\n    {")
	for _, e := range c.ErrorCodes {
		if e.Retriable {
			p("        %q,", e.Code)
		}
	}
	p("    }\n)\n\n# Close codes after which a worker does not reconnect. Any other code: it does.\nNO_RECONNECT: Final[frozenset[int]] = frozenset({%s})", joined(c.CloseCodes, func(e CloseCode) (int, bool) { return e.Code, !e.Reconnect }))
	p("\n# HTTP statuses of a refused handshake after which a worker does not reconnect.\nNO_RECONNECT_HTTP: Final[frozenset[int]] = frozenset({%s})", joined(c.HTTPRefusals, func(e Refusal) (int, bool) { return e.Status, !e.Reconnect }))
	p("\nCODE_MEANINGS: Final[dict[str, str]] = {")
	for _, e := range c.ErrorCodes {
		p("    %q: %q,", e.Code, e.Meaning)
	}
	p("}\n\nCLOSE_MEANINGS: Final[dict[int, str]] = {")
	for _, e := range c.CloseCodes {
		p("    %d: %q,", e.Code, e.Meaning)
	}
	p("}\n\nHTTP_MEANINGS: Final[dict[int, str]] = {")
	for _, e := range c.HTTPRefusals {
		p("    %d: %q,", e.Status, e.Meaning)
	}
	p("}")
}

func joined[T any](rows []T, pick func(T) (int, bool)) string {
	var out []string
	for _, r := range rows {
		if n, ok := pick(r); ok {
			out = append(out, fmt.Sprint(n))
		}
	}
	return strings.Join(out, ", ")
}

func markdown(c Codes) []byte {
	var b bytes.Buffer
	p := func(f string, args ...any) { fmt.Fprintf(&b, f+"\n", args...) }
	p("<!-- %s -->\n\n# Codes\n\nThe codes of the worker protocol. `spec/PROTOCOL.md` says how they are used.\n", warning)
	p("## Error codes\n\nRetriable: the same request may succeed later without a change by the user.\n\n| code | in | retriable | meaning |\n| --- | --- | --- | --- |")
	for _, e := range c.ErrorCodes {
		p("| `%s` | %s | %s | %s |", e.Code, codes(e.In), yes(e.Retriable), e.Meaning)
	}
	p("\n## Close codes\n\nA code that is not listed, also a socket that ends without one: reconnect.\n\n| code | name | reconnect | meaning |\n| --- | --- | --- | --- |")
	for _, e := range c.CloseCodes {
		p("| %d | `%s` | %s | %s |", e.Code, e.Name, yes(e.Reconnect), e.Meaning)
	}
	p("\n## Refused handshakes\n\n| status | name | reconnect | meaning |\n| --- | --- | --- | --- |")
	for _, e := range c.HTTPRefusals {
		p("| %d | `%s` | %s | %s |", e.Status, e.Name, yes(e.Reconnect), e.Meaning)
	}
	p("\n## Messages\n\n| type | from | answer | meaning |\n| --- | --- | --- | --- |")
	for _, m := range c.Messages {
		p("| `%s` | %s | %s | %s |", m.Type, m.From, codes(m.Answer), m.Meaning)
	}
	p("\n## Frames\n\n| kind | name | from | meaning |\n| --- | --- | --- | --- |")
	for _, k := range c.FrameKinds {
		p("| %d | `%s` | %s | %s |", k.Kind, k.Name, k.From, k.Meaning)
	}
	p("\n| flag | name | kinds | meaning |\n| --- | --- | --- | --- |")
	for _, k := range c.FrameFlags {
		p("| %d | `%s` | %s | %s |", k.Bit, k.Name, codes(k.Kinds), k.Meaning)
	}
	p("\n## Reconnecting\n\nFirst after %d ms, then twice as long each time up to %d ms, with jitter; %s.", c.Retry.First, c.Retry.Max, giveUp(c.Retry))
	return b.Bytes()
}

func giveUp(r Retry) string {
	if r.GiveUp == 0 {
		return "a client never gives up by itself"
	}
	return fmt.Sprintf("a client gives up after %d ms", r.GiveUp)
}

func codes(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = "`" + n + "`"
	}
	return strings.Join(quoted, ", ")
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
