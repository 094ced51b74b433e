package backend

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
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

// Opener opens a vendor's library and says which processors it brings. The error wraps ErrUnavailable.
type Opener func(path string) ([]Processor, error)

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

// Plugins opens vendors' libraries: files, and of folders every file with the ending that libraries have on this system, in
// the order of their names. refused are those files of folders that cannot be used. The error, a *RefusedLibrary, is about a
// file that paths name itself, about two processors of one name, or wraps ErrNoOpener.
func Plugins(paths ...string) (list []Processor, refused []*RefusedLibrary, err error) {
	opener.Lock()
	open := opener.fn
	opener.Unlock()
	for _, path := range paths {
		files, folder, err := libraryFiles(path)
		if err != nil {
			return nil, nil, &RefusedLibrary{path, err}
		}
		for _, file := range files {
			if open == nil {
				return nil, nil, &RefusedLibrary{file, ErrNoOpener}
			}
			found, err := open(file)
			if err == nil {
				err = clashes(list, found)
			}
			switch {
			case err == nil:
				list = append(list, found...)
			case folder:
				refused = append(refused, &RefusedLibrary{file, err})
			default:
				return nil, nil, &RefusedLibrary{file, err}
			}
		}
	}
	return list, refused, nil
}

// clashes returns an error where processors have names that are taken.
func clashes(list, found []Processor) error {
	for _, p := range found {
		if i := slices.IndexFunc(list, func(q Processor) bool { return q.Name == p.Name }); i >= 0 {
			return fmt.Errorf("%w: processor %q is also one of %s", ErrOption, p.Name, list[i].Path)
		}
		if slices.Contains(Names(), p.Name) {
			return fmt.Errorf("%w: processor %q has the name of a backend that is linked in", ErrOption, p.Name)
		}
	}
	return nil
}

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
