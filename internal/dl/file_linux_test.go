//go:build amd64 || arm64

package dl_test

import (
	"os"
	"testing"

	"github.com/carve-dev/carve/internal/dl"
)

// FuzzCheckELF looks at files that are libraries in part: whatever is in their headers, nothing outside of them is read.
func FuzzCheckELF(f *testing.F) {
	self, err := os.Executable()
	if err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(self)
	if err != nil {
		f.Fatal(err)
	}
	if err := dl.CheckELF(whole); err != nil {
		f.Fatalf("the program itself: %v", err)
	}
	for _, n := range []int{0, 4, 64, 120, 1024} {
		f.Add(whole[:n])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if dl.CheckELF(b) == nil && len(b) < 64 {
			t.Fatalf("%d bytes are no library", len(b))
		}
	})
}
