package golden_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/carve-dev/carve/internal/golden"
)

func TestCompare(t *testing.T) {
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte("a\nb\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]string{
		"a\nb\n":    "",
		"a\nc\n":    `: found "c", expected "b" (-update accepts that)`,
		"a":         `: found nothing more, expected "b" (-update accepts that)`,
		"a\nb\n\nc": `: found "c", expected nothing more (-update accepts that)`,
	} {
		err := golden.Compare(path, got)
		if want == "" && err != nil || want != "" && (err == nil || err.Error()[len(path)+len(", line 1"):] != want) {
			t.Errorf("%q: %v, expected %s", got, err, want)
		}
	}
	if err := golden.Compare(filepath.Join(t.TempDir(), "none"), ""); err == nil {
		t.Error("a file that is not there is equal to nothing")
	}
}
