//go:build amd64 || arm64

package dl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// The loader trusts what it maps: a file that was cut off ends the process with SIGBUS, a named pipe makes it wait for
// ever, and for another processor's library it says that there is none. So a file is looked at before it is opened.

// ELF as far as it matters here: the header and the program headers of 64-bit files.
const (
	elfHeader    = 64
	elfProgram   = 56
	elfLoad      = 1
	elfMostBytes = 1 << 20 // of program headers
)

// machines are ELF's numbers of processors.
var machines = map[string]uint16{"amd64": 62, "arm64": 183}

// checkFile returns why the file that a name leads to cannot be a library of this processor, nil where the loader has to
// say: there is no such file, or it searches for the name in folders of its own.
func checkFile(name string) error {
	path, at := name, ""
	if !strings.Contains(name, "/") {
		path = ""
		for _, dir := range filepath.SplitList(os.Getenv("LD_LIBRARY_PATH")) {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil && dir != "" {
				path = filepath.Join(dir, name)
				at = path + ": "
				break
			}
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%sit is no regular file", at)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := checkELF(f, info.Size()); err != nil {
		return fmt.Errorf("%sit %w", at, err)
	}
	return nil
}

// checkELF returns what is wrong with a library of that many bytes, as the end of a sentence about it.
func checkELF(r io.ReaderAt, size int64) error {
	h := make([]byte, elfHeader)
	if _, err := r.ReadAt(h, 0); err != nil || string(h[:4]) != "\x7fELF" {
		return errors.New("is no library")
	}
	le := binary.LittleEndian
	if h[4] != 2 || h[5] != 1 || le.Uint16(h[18:]) != machines[runtime.GOARCH] {
		return fmt.Errorf("is a library for another processor than %s", runtime.GOARCH)
	}
	at, each, count := int64(le.Uint64(h[32:])), int(le.Uint16(h[54:])), int(le.Uint16(h[56:]))
	if each < elfProgram || each*count > elfMostBytes {
		return errors.New("is no library")
	}
	list := make([]byte, each*count)
	cut := fmt.Errorf("is cut off: it has %d bytes", size)
	if _, err := r.ReadAt(list, at); err != nil {
		return cut
	}
	for ; len(list) > 0; list = list[each:] {
		if le.Uint32(list) != elfLoad {
			continue
		}
		if off, n := le.Uint64(list[8:]), le.Uint64(list[32:]); off > uint64(size) || n > uint64(size)-off {
			return cut
		}
	}
	return nil
}
