package memplan

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// columns are the names of MiniMalloc's columns and its older names for them.
// A column called "end" holds the last time of a lifetime, not the first after.
var columnNames = map[string]string{
	"id": "id", "buffer": "id", "buffer_id": "id",
	"lower": "lower", "begin": "lower", "start": "lower",
	"upper": "upper", "end": "upper",
	"size": "size", "alignment": "alignment", "gaps": "gaps", "offset": "offset",
}

// ReadCSV reads buffers in MiniMalloc's format: a header line with the columns
// id, lower, upper and size in any order, and optionally alignment, gaps
// ("10-20 30-40") and offset, which fixes a buffer where the cell is not empty.
// Cells are separated by commas and may be quoted; blank lines are skipped,
// columns of other names ignored. MiniMalloc's older names (buffer, buffer_id,
// begin, start, end) are understood; times in an "end" column, and ends of gaps
// beside one, are inclusive.
//
// Every fault is an *InputError with the line, counted from 1: faulty cells,
// missing or repeated columns, empty or repeated ids, gaps with a window
// ("10-20@0:64"), and all that Pack refuses in a single buffer. Cost O(n).
func ReadCSV(r io.Reader) ([]Buffer, error) {
	in := csv.NewReader(r)
	in.FieldsPerRecord = -1
	in.ReuseRecord = true
	header, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil, &InputError{Buffer: -1, Line: 1, Reason: "the header is missing"}
	}
	if err != nil {
		return nil, csvError(err)
	}
	t, err := newCSVTable(header)
	if err != nil {
		return nil, err
	}
	var bufs []Buffer
	lineOf := make(map[string]int)
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			return bufs, nil
		}
		if err != nil {
			return nil, csvError(err)
		}
		line, _ := in.FieldPos(0)
		if len(row) == 1 && strings.TrimSpace(row[0]) == "" {
			continue
		}
		b, err := t.parse(row)
		if err == nil {
			if field, reason := checkBuffer(&b, -1, math.MaxInt); reason != "" {
				err = &InputError{Field: field, Reason: reason}
			} else if b.ID == "" {
				err = &InputError{Field: "id", Reason: "is empty"}
			} else if first, ok := lineOf[b.ID]; ok {
				err = &InputError{Field: "id", Reason: fmt.Sprintf("%.40q is used on line %d already", b.ID, first)}
			}
		}
		var fault *InputError
		if errors.As(err, &fault) {
			fault.Buffer, fault.Line = len(bufs), line
			return nil, fault
		}
		lineOf[b.ID] = line
		bufs = append(bufs, b)
	}
}

// csvError turns a fault of the CSV syntax into an *InputError. Errors of the
// reader itself are passed on.
func csvError(err error) error {
	var p *csv.ParseError
	if errors.As(err, &p) {
		return &InputError{Buffer: -1, Line: p.Line, Reason: "is no CSV", Err: p.Err}
	}
	return fmt.Errorf("memplan: reading CSV: %w", err)
}

// csvTable knows where the columns are.
type csvTable struct {
	at     map[string]int
	width  int
	addend int64 // 1 where ends are inclusive
}

func newCSVTable(header []string) (*csvTable, error) {
	t := &csvTable{at: make(map[string]int), width: len(header)}
	for i, name := range header {
		if i == 0 {
			name = strings.TrimPrefix(name, "\ufeff")
		}
		name = strings.TrimSpace(name)
		column, ok := columnNames[name]
		if !ok {
			continue
		}
		if _, ok := t.at[column]; ok {
			return nil, &InputError{Buffer: -1, Line: 1, Field: column, Reason: "the column is there twice"}
		}
		t.at[column] = i
		if name == "end" {
			t.addend = 1
		}
	}
	for _, column := range []string{"id", "lower", "upper", "size"} {
		if _, ok := t.at[column]; !ok {
			return nil, &InputError{Buffer: -1, Line: 1, Field: column, Reason: "the column is missing"}
		}
	}
	return t, nil
}

// parse reads one row.
func (t *csvTable) parse(row []string) (Buffer, error) {
	if len(row) != t.width {
		return Buffer{}, &InputError{Reason: fmt.Sprintf("has %d cells, and the header has %d", len(row), t.width)}
	}
	b := Buffer{ID: strings.Clone(row[t.at["id"]])}
	var err error
	number := func(column string, addend int64) int64 {
		if err != nil {
			return 0
		}
		var v int64
		v, err = parseTime(column, row[t.at[column]], addend)
		return v
	}
	b.Lower = number("lower", 0)
	b.Upper = number("upper", t.addend)
	b.Size = number("size", 0)
	if t.filled(row, "alignment") {
		b.Align = number("alignment", 0)
		if err == nil && b.Align == 0 {
			err = &InputError{Field: "alignment", Reason: "is zero"}
		}
	}
	if t.filled(row, "offset") {
		b.Fixed, b.Offset = true, number("offset", 0)
	}
	if err == nil && t.filled(row, "gaps") {
		b.Gaps, err = parseGaps(row[t.at["gaps"]], t.addend)
	}
	return b, err
}

// filled reports whether row has something in an optional column.
func (t *csvTable) filled(row []string, column string) bool {
	i, ok := t.at[column]
	return ok && strings.TrimSpace(row[i]) != ""
}

// parseTime reads a decimal integer and adds addend.
func parseTime(field, cell string, addend int64) (int64, error) {
	v, err := strconv.ParseInt(strings.TrimSpace(cell), 10, 64)
	if err == nil && v > math.MaxInt64-addend {
		err = strconv.ErrRange
	}
	if err != nil {
		cause := errors.Unwrap(err)
		if cause == nil {
			cause = err
		}
		return 0, &InputError{Field: field, Reason: fmt.Sprintf("%.40q is no 64-bit integer", cell), Err: cause}
	}
	return v + addend, nil
}

// parseGaps reads gaps such as "10-20 30-40". Times may be negative.
func parseGaps(cell string, addend int64) ([]Interval, error) {
	var gaps []Interval
	for _, word := range strings.Fields(cell) {
		if strings.Contains(word, "@") {
			return nil, &InputError{Field: "gaps", Reason: fmt.Sprintf("the window of %.40q is not supported", word)}
		}
		// The first character may be a sign.
		dash := strings.IndexByte(word[1:], '-') + 1
		if dash == 0 {
			return nil, &InputError{Field: "gaps", Reason: fmt.Sprintf("%.40q is no gap such as 10-20", word)}
		}
		lower, err := parseTime("gaps", word[:dash], 0)
		if err != nil {
			return nil, err
		}
		upper, err := parseTime("gaps", word[dash+1:], addend)
		if err != nil {
			return nil, err
		}
		gaps = append(gaps, Interval{lower, upper})
	}
	return gaps, nil
}

// WriteCSV writes buffers in the format that ReadCSV reads: the columns id,
// lower, upper, size; alignment and gaps where some buffer has them; and
// offset where offsets is not nil, one per buffer, or where some buffer is
// fixed. A buffer without an ID gets its index as id, so that MiniMalloc reads
// the file too. Shared space has no column and is not written.
func WriteCSV(w io.Writer, bufs []Buffer, offsets []int64) error {
	if offsets != nil && len(offsets) != len(bufs) {
		return &InputError{Buffer: -1, Field: "offset", Reason: fmt.Sprintf("%d offsets for %d buffers", len(offsets), len(bufs))}
	}
	var aligned, gapped, fixed bool
	for i := range bufs {
		aligned = aligned || bufs[i].Align > 1
		gapped = gapped || len(bufs[i].Gaps) > 0
		fixed = fixed || bufs[i].Fixed
	}
	buffered := bufio.NewWriter(w)
	out := csv.NewWriter(buffered)
	row := []string{"id", "lower", "upper", "size"}
	if aligned {
		row = append(row, "alignment")
	}
	if gapped {
		row = append(row, "gaps")
	}
	if offsets != nil || fixed {
		row = append(row, "offset")
	}
	if err := out.Write(row); err != nil {
		return fmt.Errorf("memplan: writing CSV: %w", err)
	}
	for i := range bufs {
		b := &bufs[i]
		row = append(row[:0], nameOf(b, i), decimal(b.Lower), decimal(b.Upper), decimal(b.Size))
		if aligned {
			row = append(row, decimal(b.alignment()))
		}
		if gapped {
			row = append(row, formatGaps(b.Gaps))
		}
		switch {
		case offsets != nil:
			row = append(row, decimal(offsets[i]))
		case b.Fixed:
			row = append(row, decimal(b.Offset))
		case fixed:
			row = append(row, "")
		}
		if err := out.Write(row); err != nil {
			return fmt.Errorf("memplan: writing CSV: %w", err)
		}
	}
	out.Flush()
	if err := errors.Join(out.Error(), buffered.Flush()); err != nil {
		return fmt.Errorf("memplan: writing CSV: %w", err)
	}
	return nil
}

func decimal(x int64) string { return strconv.FormatInt(x, 10) }

// nameOf is the id of a buffer, or its index where it has none.
func nameOf(b *Buffer, i int) string {
	if b.ID == "" {
		return strconv.Itoa(i)
	}
	return b.ID
}

func formatGaps(gaps []Interval) string {
	words := make([]string, len(gaps))
	for i, g := range gaps {
		words[i] = decimal(g.Lower) + "-" + decimal(g.Upper)
	}
	return strings.Join(words, " ")
}
