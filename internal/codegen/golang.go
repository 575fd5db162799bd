package codegen

import (
	"bytes"
	"fmt"
	"go/format"
)

func goCodes(c Codes) ([]byte, error) {
	var b bytes.Buffer
	p := func(f string, args ...any) { fmt.Fprintf(&b, f+"\n", args...) }
	p("// %s\n\npackage protocol\n\nimport \"time\"\n", warning)
	p("// Subprotocol is the websocket subprotocol that both sides name.\nconst Subprotocol = %q\n", c.Subprotocol)
	p("// Types of control messages.\nconst (")
	for _, m := range c.Messages {
		p("Type%s = %q // from %s: %s", camel(m.Type), m.Type, m.From, m.Meaning)
	}
	p(")\n\n// Error codes.\nconst (")
	for _, e := range c.ErrorCodes {
		p("Code%s = %q // %s", camel(e.Code), e.Code, e.Meaning)
	}
	p(")\n\n// Websocket close codes.\nconst (")
	for _, e := range c.CloseCodes {
		p("Close%s = %d // %s", camel(e.Name), e.Code, e.Meaning)
	}
	p(")\n\n// HTTP statuses of a refused handshake.\nconst (")
	for _, e := range c.HTTPRefusals {
		p("HTTP%s = %d // %s", camel(e.Name), e.Status, e.Meaning)
	}
	p(")\n\n// How a worker reconnects. ReconnectGiveUp 0 means never.\nconst (")
	p("ReconnectFirst = %d * time.Millisecond\nReconnectMax = %d * time.Millisecond\nReconnectGiveUp = %d * time.Millisecond\n)\n",
		c.Retry.First, c.Retry.Max, c.Retry.GiveUp)
	p("// Retriable says whether the same request may succeed later without a change by the user.\nfunc Retriable(code string) bool {\n\tswitch code {\n\tcase")
	goList(&b, c.ErrorCodes, func(e ErrorCode) string {
		if !e.Retriable {
			return ""
		}
		return "Code" + camel(e.Code)
	})
	p(":\nreturn true\n}\nreturn false\n}\n")
	p("// Reconnect says whether a worker may connect again after this close code. Codes that are not\n// listed, such as 1006 (the socket just ended), mean yes.\nfunc Reconnect(closeCode int) bool {\nswitch closeCode {\ncase")
	goList(&b, c.CloseCodes, func(e CloseCode) string {
		if e.Reconnect {
			return ""
		}
		return "Close" + camel(e.Name)
	})
	p(":\nreturn false\n}\nreturn true\n}\n")
	p("// CloseName names a close code, for the reason text and logs; empty when it is not ours.\nfunc CloseName(closeCode int) string {\nswitch closeCode {")
	for _, e := range c.CloseCodes {
		p("case Close%s:\nreturn %q", camel(e.Name), e.Name)
	}
	p("}\nreturn \"\"\n}\n")
	p("// Meaning is the sentence that explains an error code; empty when it is unknown.\nfunc Meaning(code string) string {\nswitch code {")
	for _, e := range c.ErrorCodes {
		p("case Code%s:\nreturn %q", camel(e.Code), e.Meaning)
	}
	p("}\nreturn \"\"\n}")
	goSides(p, &b, c)
	out, err := format.Source(b.Bytes())
	if err != nil {
		return nil, fmt.Errorf("format the generated Go file: %w", err)
	}
	return out, nil
}

// goSides writes who may send which type.
func goSides(p func(string, ...any), b *bytes.Buffer, c Codes) {
	for _, side := range []string{"worker", "sidecar"} {
		p("\n// From%s says whether a %s may send messages of the type.\nfunc From%s(typ string) bool {\nswitch typ {\ncase", camel(side), side, camel(side))
		goList(b, c.Messages, func(m Message) string {
			if m.From != side && m.From != "both" {
				return ""
			}
			return "Type" + camel(m.Type)
		})
		p(":\nreturn true\n}\nreturn false\n}")
	}
}

// goList writes the names that are not empty, one a line, for a case clause.
func goList[T any](b *bytes.Buffer, rows []T, name func(T) string) {
	first := true
	for _, r := range rows {
		n := name(r)
		if n == "" {
			continue
		}
		if !first {
			b.WriteString(",\n")
		}
		first = false
		b.WriteString(" " + n)
	}
}
