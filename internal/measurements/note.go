package measurements

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// noteVersion begins each file of a note. Another one is another format, and not read.
const noteVersion = "carve note 1"

// noteName is the file that a note is in, relative to the folder.
func noteName(about string) string {
	h := digest("note " + about)
	return h[:2] + "/" + h[2:] + ".note"
}

// Note returns a text by what it is about. ok is false where there is none, or none that can be read.
func (c *Cache) Note(about string) (text string, ok bool) {
	ok = c.get(noteName(about), func(b []byte) (err error) {
		text, err = decodeNote(b, about)
		return err
	})
	return text, ok
}

// AddNote keeps a text where there is none of what it is about yet, and returns the one that is kept. The error wraps ErrEntry where
// the file would be larger than a megabyte.
func (c *Cache) AddNote(about, text string) (string, error) {
	b, err := encodeNote(about, text)
	if err != nil {
		return "", err
	}
	err = c.write(noteName(about), b, func(part, path string) error {
		return first(part, path, func() bool {
			kept, ok := c.Note(about)
			if ok {
				text = kept
			}
			return ok
		})
	})
	return text, err
}

// PutNote keeps a text in the place of an older one. Errors are those of AddNote.
func (c *Cache) PutNote(about, text string) error {
	b, err := encodeNote(about, text)
	if err != nil {
		return err
	}
	return c.write(noteName(about), b, func(part, path string) error { return os.Rename(part, path) })
}

func encodeNote(about, text string) ([]byte, error) {
	s := fmt.Sprintf("%s\nabout %s\n%s\n", noteVersion, strconv.Quote(about), text)
	s += "sum " + sum(s) + "\n"
	if len(s) > mostBytes {
		return nil, fmt.Errorf("%w: a note of %d bytes", ErrEntry, len(s))
	}
	return []byte(s), nil
}

// decodeNote reads the content of a file that is to be about that. The error wraps ErrEntry.
func decodeNote(b []byte, about string) (string, error) {
	s, err := whole(string(b))
	if err != nil {
		return "", err
	}
	rest, ok := strings.CutPrefix(s, noteVersion+"\n")
	if !ok {
		return "", fmt.Errorf("%w: not of this version", ErrEntry)
	}
	if rest, ok = strings.CutPrefix(rest, "about "+strconv.Quote(about)+"\n"); !ok {
		return "", fmt.Errorf("%w: about something else", ErrEntry)
	}
	return strings.TrimSuffix(rest, "\n"), nil
}
