package groupsim

import (
	"fmt"
	"strings"

	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/session"
)

// say is an event, an effect or a message in one line of the history.
func say(v any) string {
	switch v := v.(type) {
	case session.Send:
		return "Send " + say(v.Message)
	case session.SendInStream:
		return fmt.Sprintf("SendInStream %d %s", v.Stream, say(v.Message))
	case session.Received:
		return "Received " + say(v.Message)
	case session.Produce:
		return fmt.Sprintf("Produce %s op %d, %d frames", v.Task, v.Op, len(v.Writes))
	case session.FreeWrites:
		return "FreeWrites"
	case protocol.Opened:
		points := map[string]string{}
		for name, at := range v.Checkpoints {
			if at != nil {
				points[name] = *at
			}
		}
		return fmt.Sprintf("Opened re %d %s epoch %d at %v", v.Re, v.Task, v.Epoch, points)
	}
	text := strings.TrimPrefix(fmt.Sprintf("%T %+v", v, v), "session.")
	text = strings.TrimPrefix(text, "protocol.")
	if len(text) > 400 {
		text = text[:400] + "…"
	}
	return text
}
