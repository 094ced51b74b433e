package measurements_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/carve-dev/carve/internal/measurements"
)

// FuzzGet reads a file of any content: it is an entry that is written again with the same content, or ignored with a warning.
func FuzzGet(f *testing.F) {
	path := func(dir string) string {
		list, _ := filepath.Glob(filepath.Join(dir, "*", "*.time"))
		return list[0]
	}
	seed := f.TempDir()
	c, err := measurements.Open(seed, nil)
	if err != nil {
		f.Fatal(err)
	}
	if err := c.Put(key(1), entry(1, 1)); err != nil {
		f.Fatal(err)
	}
	b, err := os.ReadFile(path(seed))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Add([]byte("carve measurement 1\n"))
	f.Add([]byte("sum "))
	dir := f.TempDir()
	warned := 0
	if c, err = measurements.Open(dir, func(string, error) { warned++ }); err != nil {
		f.Fatal(err)
	}
	if err := c.Put(key(1), entry(1, 1)); err != nil {
		f.Fatal(err)
	}
	at := path(dir)
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := os.WriteFile(at, content, 0o644); err != nil {
			t.Fatal(err)
		}
		warned = 0
		e, ok := c.Get(key(1))
		if ok != (warned == 0) {
			t.Fatalf("%v, and %d warnings", ok, warned)
		}
		if !ok {
			return
		}
		if err := c.Put(key(1), e); err != nil {
			t.Fatal(err)
		}
		if again, ok := c.Get(key(1)); !ok || again != e {
			t.Fatalf("%+v is read again as %+v", e, again)
		}
	})
}
