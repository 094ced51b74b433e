// Package golden compares texts that tests make with files beside them. With the flag -update the files are written anew.
package golden

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Tests that import this package have the flag.
var update = flag.Bool("update", false, "write golden files anew instead of comparing with them")

// Compare returns an error that names the first line in which got differs from the file at path.
func Compare(path, got string) error {
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, []byte(got), 0o644)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%w (-update writes it)", err)
	}
	want := strings.ReplaceAll(string(data), "\r\n", "\n")
	if got == want {
		return nil
	}
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := 0; ; i++ {
		switch {
		case i == len(a):
			return fmt.Errorf("%s, line %d: found nothing more, expected %q (-update accepts that)", path, i+1, b[i])
		case i == len(b):
			return fmt.Errorf("%s, line %d: found %q, expected nothing more (-update accepts that)", path, i+1, a[i])
		case a[i] != b[i]:
			return fmt.Errorf("%s, line %d: found %q, expected %q (-update accepts that)", path, i+1, a[i], b[i])
		}
	}
}
