package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"
	"unsafe"

	"github.com/pillion/pillion/internal/plan"
)

const (
	idLength  = 16 // of a member's id, unless that is not enough to tell two apart
	listWidth = 18 // of a list of partitions, at least, before the table becomes blocks
	columnGap = 2
)

// table shows the report in at most so many columns; 0: as many as it takes. Lists of partitions wrap.
// Where a table has no room each member is a block.
func (r groupReport) table(width int) string {
	var text strings.Builder
	text.WriteString(indented(r.headline(), width) + "\n")
	names := r.names()
	if len(r.Members) > 0 {
		text.WriteString("\n")
		if set, ok := r.columns(names, width); ok {
			text.WriteString(set)
		} else {
			text.WriteString(r.blocks(names, width))
		}
	}
	if notes := r.notes(names); len(notes) > 0 {
		text.WriteString("\n")
		for _, note := range notes {
			text.WriteString(indented(note, width) + "\n")
		}
	}
	return text.String()
}

// headline is the group in a sentence.
func (r groupReport) headline() string {
	state := r.State
	if strings.HasSuffix(state, "Rebalance") {
		state += ", shares are told when that is over"
	}
	if r.AfterGeneration >= 0 {
		state += fmt.Sprintf(", after generation %d", r.AfterGeneration)
	}
	line := fmt.Sprintf("group %s: %s: %s", r.Group, state, plan.Counted(len(r.Members), "member"))
	if tasks, copies := r.tasks(); tasks > 0 {
		line += fmt.Sprintf(", %s in %s, %s", plan.Counted(tasks, "task"), plan.Counted(len(r.Sets), "set"), plan.Counted(copies, "standby"))
	}
	return line
}

// names shortens the members' ids as far as they stay different.
func (r groupReport) names() map[string]string {
	length := idLength
	for i, m := range r.Members {
		for _, other := range r.Members[:i] {
			same := 0
			for same < min(len(m.ID), len(other.ID)) && m.ID[same] == other.ID[same] {
				same++
			}
			length = max(length, same+1)
		}
	}
	names := map[string]string{}
	for _, m := range r.Members {
		names[m.ID] = m.ID
		if len(m.ID) > length+1 {
			names[m.ID] = m.ID[:length] + "…"
		}
	}
	return names
}

// Columns of the table. The first stays; others go when they say nothing, or for lack of room.
const (
	columnHost    = 2
	columnActive  = 5
	columnStandby = 6
)

// columns sets the table; false: it has no room.
func (r groupReport) columns(names map[string]string, width int) (string, bool) {
	rows := [][]string{{"MEMBER", "ADDRESS", "HOST", "RACK", "SET", "ACTIVE", "STANDBY (LAG)"}}
	addresses := true
	for _, m := range r.Members {
		addresses = addresses && m.Address != ""
		who := []string{names[m.ID], m.Address, m.Host, m.Rack}
		for _, s := range m.sharesOrNone() {
			rows = append(rows, append(slices.Clone(who), s.Set, dash(plan.Ranges(s.Active)), dash(s.copies())))
			who = make([]string, len(who))
		}
	}
	widths := make([]int, len(rows[0]))
	for i := range widths {
		for n, row := range rows {
			if says := row[i] != "" && row[i] != "-"; i == 0 || n > 0 && says {
				widths[i] = max(widths[i], utf8.RuneCountInString(row[i]), utf8.RuneCountInString(rows[0][i]))
			}
		}
	}
	if !fit(widths, width) {
		if widths[columnHost] = 0; !addresses || !fit(widths, width) {
			return "", false
		}
	}
	var text strings.Builder
	for _, row := range rows {
		text.WriteString(setRow(row, widths))
	}
	return text.String(), true
}

// fit narrows the two lists until the table has room, and says whether it has.
func fit(widths []int, width int) bool {
	total := -columnGap
	for _, w := range widths {
		if w > 0 {
			total += w + columnGap
		}
	}
	if width == 0 || total <= width {
		return true
	}
	active, standby := &widths[columnActive], &widths[columnStandby]
	left := width - total + *active + *standby // for the two together
	if left < min(*active, listWidth)+min(*standby, listWidth) {
		return false
	}
	*active = min(*active, max(left-*standby, left/2, left-max(left/2, listWidth)))
	*standby = min(*standby, left-*active)
	return true
}

// setRow sets one row, whose lists may take several lines.
func setRow(row []string, widths []int) string {
	lists := map[int][]string{columnActive: wrap(row[columnActive], widths[columnActive]), columnStandby: wrap(row[columnStandby], widths[columnStandby])}
	var text strings.Builder
	for line := range max(len(lists[columnActive]), len(lists[columnStandby])) {
		var out strings.Builder
		for i, cell := range row {
			if list, is := lists[i]; is && line < len(list) {
				cell = list[line]
			} else if is || line > 0 {
				cell = ""
			}
			if widths[i] > 0 {
				out.WriteString(cell + strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(cell))+columnGap))
			}
		}
		text.WriteString(strings.TrimRight(out.String(), " ") + "\n")
	}
	return text.String()
}

// blocks sets one member below the other.
func (r groupReport) blocks(names map[string]string, width int) string {
	var text strings.Builder
	for i, m := range r.Members {
		if i > 0 {
			text.WriteString("\n")
		}
		who := []string{names[m.ID]}
		for _, part := range []string{m.Address, m.Host, m.Rack} {
			if part != "" {
				who = append(who, part)
			}
		}
		text.WriteString(indented(strings.Join(who, "  "), width) + "\n")
		for _, s := range m.Shares {
			text.WriteString("  " + s.Set + "\n")
			for _, list := range []string{"active " + dash(plan.Ranges(s.Active)), "standby " + dash(s.copies())} {
				text.WriteString("    " + strings.Join(wrap(list, max(listWidth, width-6)), "\n      ") + "\n")
			}
		}
		if len(m.Shares) == 0 {
			text.WriteString("  nothing\n")
		}
	}
	return text.String()
}

// notes are what does not fit into columns.
func (r groupReport) notes(names map[string]string) (notes []string) {
	type wait struct{ set, by string }
	waits, order := map[wait][]int32{}, []wait{}
	for _, w := range r.Waiting {
		key := wait{w.Set, w.HeldBy}
		if waits[key] == nil {
			order = append(order, key)
		}
		waits[key] = append(waits[key], w.Partition)
	}
	for _, w := range order {
		why := "nobody has it"
		if w.by != "" {
			why = names[w.by] + " has to let go first"
		}
		notes = append(notes, fmt.Sprintf("waits: %s %s: %s", w.set, plan.Ranges(waits[w]), why))
	}
	for _, s := range r.Sets {
		if s.Partitions == 0 {
			notes = append(notes, fmt.Sprintf("set %s: its topics do not exist", s.Set))
		}
	}
	for _, m := range r.Members {
		for what, is := range map[string]bool{"is draining": m.Draining, "cannot hold standbys": m.NoStandby} {
			if is {
				notes = append(notes, names[m.ID]+" "+what)
			}
		}
		if m.Problem != "" {
			notes = append(notes, names[m.ID]+": "+m.Problem)
		}
	}
	slices.Sort(notes)
	if _, copies := r.tasks(); copies > 0 {
		notes = append(notes, "lag: about how many records behind a copy was when its member joined last")
	}
	return notes
}

func (m reportMember) sharesOrNone() []reportShare {
	if len(m.Shares) == 0 {
		return []reportShare{{Set: "-"}}
	}
	return m.Shares
}

// copies are the partitions that are shadowed, those of one lag together.
func (s reportShare) copies() string {
	var parts []string
	for i := 0; i < len(s.Standby); {
		j := i
		var same []int32
		for ; j < len(s.Standby) && s.Standby[j].Lag == s.Standby[i].Lag; j++ {
			same = append(same, s.Standby[j].Partition)
		}
		lag := "?"
		if s.Standby[i].Lag >= 0 {
			lag = strconv.FormatInt(s.Standby[i].Lag, 10)
		}
		parts = append(parts, plan.Ranges(same)+" ("+lag+")")
		i = j
	}
	return strings.Join(parts, ", ")
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// indented wraps a line of its own; what follows its first line is indented.
func indented(text string, width int) string {
	if width > 0 && utf8.RuneCountInString(text) > width {
		return strings.Join(wrap(text, max(listWidth, width-4)), "\n    ")
	}
	return text
}

// wrap breaks a text behind commas and blanks so that no line is longer; what cannot be broken stays.
func wrap(text string, width int) []string {
	var lines []string
	for width > 0 && utf8.RuneCountInString(text) > width {
		at := 0
		for i, c := range text {
			if (c == ',' || c == ' ') && (at == 0 || utf8.RuneCountInString(text[:i+1]) <= width) && !strings.HasPrefix(text[i+1:], "(") {
				at = i + 1
			}
		}
		if at == 0 || at == len(text) {
			break
		}
		lines = append(lines, strings.TrimRight(text[:at], " "))
		text = strings.TrimLeft(text[at:], " ")
	}
	return append(lines, text)
}

// width is how many columns there are to write to; 0: it does not matter.
func width(out io.Writer, environ []string) int {
	f, ok := out.(*os.File)
	if !ok {
		return 0
	}
	var size struct{ rows, columns, x, y uint16 }
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	if errno != 0 {
		return 0 // no terminal
	}
	if n, err := strconv.Atoi(lookup(environ, "COLUMNS")); err == nil && n > 0 {
		return n
	}
	return int(size.columns)
}
