package measurements

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Key says what was measured. Two measurements with the same key are of the same thing.
type Key struct {
	Operator   string // with its operator set's version; of a fused set, the text of its body
	Attributes string
	Shapes     string // of operands and results, as they were measured
	Types      string
	Signature  string // name and formats
	Backend    string
	Library    string // version of the backend's implementation
	Threads    int
	Processor  string
}

// Entry is a measurement.
type Entry struct {
	Nanos float64 // of one run
	Noise float64 // standard error of Nanos
	Runs  int     // that it was made of
}

// ErrEntry is wrapped by errors about files that are no entries, or not of the key that they are named after.
var ErrEntry = errors.New("bad measurement")

// version begins each file. Another one is another format, and not read.
const version = "carve measurement 1"

// fields are a key's, in the order of the file.
func (k *Key) fields() [][2]string {
	return [][2]string{{"operator", k.Operator}, {"attributes", k.Attributes}, {"shapes", k.Shapes}, {"types", k.Types}, {"signature", k.Signature},
		{"backend", k.Backend}, {"library", k.Library}, {"threads", strconv.Itoa(k.Threads)}, {"processor", k.Processor}}
}

// text is the key as it stands in a file: what equal keys have alike and others do not.
func (k *Key) text() string {
	var s strings.Builder
	for _, f := range k.fields() {
		s.WriteString(f[0] + " " + strconv.Quote(f[1]) + "\n")
	}
	return s.String()
}

// name is the file that a key's entry is in, relative to the folder.
func (k *Key) name() string {
	h := k.Digest()
	return h[:2] + "/" + h[2:] + suffix
}

// Digest is the name that a key goes by in lists: 40 hexadecimal digits, which keys that differ do not share.
func (k *Key) Digest() string { return digest(k.text()) }

func digest(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:20])
}

// encode returns the content of a file.
func encode(k *Key, e Entry) []byte {
	s := version + "\n" + k.text() + fmt.Sprintf("nanos %s\nnoise %s\nruns %d\n", number(e.Nanos), number(e.Noise), e.Runs)
	return []byte(s + "sum " + sum(s) + "\n")
}

// number writes a float so that it is read as the same.
func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:16])
}

// whole returns what stands in front of a file's last line, which is the sum of that.
func whole(s string) (string, error) {
	at := strings.LastIndex(s, "sum ")
	if at < 0 || s[at:] != "sum "+sum(s[:at])+"\n" {
		return "", fmt.Errorf("%w: it is not whole", ErrEntry)
	}
	return s[:at], nil
}

// decode reads the content of a file that is to be of key k. The error wraps ErrEntry.
func decode(b []byte, k *Key) (Entry, error) {
	s, err := whole(string(b))
	if err != nil {
		return Entry{}, err
	}
	rest, ok := strings.CutPrefix(s, version+"\n")
	if !ok {
		return Entry{}, fmt.Errorf("%w: not of this version", ErrEntry)
	}
	if rest, ok = strings.CutPrefix(rest, k.text()); !ok {
		return Entry{}, fmt.Errorf("%w: of another key", ErrEntry)
	}
	lines := strings.Split(strings.TrimSuffix(rest, "\n"), "\n")
	if len(lines) != 3 {
		return Entry{}, fmt.Errorf("%w: %d lines of numbers", ErrEntry, len(lines))
	}
	var e Entry
	var runs float64
	for i, f := range []struct {
		name string
		to   *float64
	}{{"nanos ", &e.Nanos}, {"noise ", &e.Noise}, {"runs ", &runs}} {
		text, ok := strings.CutPrefix(lines[i], f.name)
		x, err := strconv.ParseFloat(text, 64)
		if !ok || err != nil || !(x >= 0) || math.IsInf(x, 1) {
			return Entry{}, fmt.Errorf("%w: %q", ErrEntry, lines[i])
		}
		*f.to = x
	}
	if e.Runs = int(runs); e.Nanos <= 0 || runs != math.Trunc(runs) || runs < 1 || runs > math.MaxInt32 {
		return Entry{}, fmt.Errorf("%w: %g ns of %g runs", ErrEntry, e.Nanos, runs)
	}
	return e, nil
}
