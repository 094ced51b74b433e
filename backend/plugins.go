package backend

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// Processor is one that a vendor's library brings, as a backend that can be opened.
type Processor struct {
	Name    string // of the backend
	Version string // of the implementation
	Arch    string // for people
	Path    string // of the library
	Driver  Driver // opens it; the name of its Config is not looked at
}

// OutOfProcess is the option of a plugin's processor that has it run in a process of its own: "true" or "false".
const OutOfProcess = "out-of-process"

// Opener opens a vendor's library and says what it brings. Where options have OutOfProcess, the library is not opened in this
// process, but by processors without that option. The error wraps ErrUnavailable.
type Opener func(path string, options map[string]string) (*Library, error)

var opener struct {
	sync.Mutex
	fn Opener
}

// RegisterOpener makes known how vendors' libraries are opened. Package backend/plugin calls it from init. It panics on nil,
// and where there is one already.
func RegisterOpener(fn Opener) {
	opener.Lock()
	defer opener.Unlock()
	if fn == nil || opener.fn != nil {
		panic("backend: RegisterOpener twice, or of nothing")
	}
	opener.fn = fn
}

// ErrNoOpener says that the program cannot open vendors' libraries.
var ErrNoOpener = errors.New(`libraries need the import of "github.com/carve-dev/carve/backend/plugin"`)

// RefusedLibrary is a file that is no plugin, or one that cannot be used.
type RefusedLibrary struct {
	Path string
	Err  error
}

// Error names the file.
func (e *RefusedLibrary) Error() string { return fmt.Sprintf("plugin %s: %v", e.Path, e.Err) }

// Unwrap returns the cause.
func (e *RefusedLibrary) Unwrap() error { return e.Err }

// libraryFiles returns the files that a path stands for, each absolute.
func libraryFiles(path string) (files []string, folder bool, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, false, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, false, err
	}
	if !info.IsDir() {
		return []string{path}, false, nil
	}
	entries, err := os.ReadDir(path) // in the order of names
	if err != nil {
		return nil, true, err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), librarySuffix()) && !e.IsDir() {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	return files, true, nil
}

// librarySuffix is how files of libraries end.
func librarySuffix() string {
	switch runtime.GOOS {
	case "darwin":
		return ".dylib"
	case "windows":
		return ".dll"
	}
	return ".so"
}
