package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/pending"
)

// outputNames gives out names of files: those of outputs with every character outside of [A-Za-z0-9._-] made "_", and
// "_2", "_3" and so on behind a name that is taken. A name holds no separator, so that it stays inside its folder.
type outputNames struct {
	taken map[string]bool
}

// maxName bounds the bytes of a name, so that its file's fits every file system.
const maxName = 200

// next returns the name for an output.
func (o *outputNames) next(output string) string {
	name := strings.Map(func(r rune) rune {
		if r == '.' || r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, output)
	if name == "" {
		name = "_"
	}
	name = name[:min(len(name), maxName)]
	try := name
	for i := 2; o.taken[fold(try)]; i++ {
		try = fmt.Sprintf("%s_%d", name, i)
	}
	if o.taken == nil {
		o.taken = map[string]bool{}
	}
	o.taken[fold(try)] = true
	return try
}

// fold makes names equal that are one name in the usual file systems of this platform.
func fold(name string) string {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		return strings.ToLower(name)
	}
	return name
}

// apart refuses an output, said by a flag or argument of that name, that would replace a file that the command reads. A link
// to one is replaced itself, and harms none.
func apart(name, output string, reads ...string) error {
	to, err := os.Lstat(output)
	if err != nil {
		return nil // nothing is there, or what writes says why not
	}
	for _, path := range reads {
		if from, err := os.Stat(path); err == nil && os.SameFile(from, to) && from.Mode().IsRegular() {
			return fmt.Errorf("%s %s: the command reads this file, and would replace it", name, output)
		}
	}
	return nil
}

// reads lists the files that the flags of a command name, and its model's.
func (f *modelFlags) reads(model string) []string {
	paths := slices.Concat([]string{model, f.params, f.config, f.plan}, f.plugins)
	for _, s := range f.inputs {
		_, path, _ := strings.Cut(s, "=")
		paths = append(paths, path)
	}
	return paths
}

// outputSuffixes lists what may stand behind the name of the file of an output of this type.
func outputSuffixes(t graph.Type) []string {
	switch {
	case t.Kind != graph.KindTensor && t.Kind != graph.KindUnknown:
		return []string{".pb"}
	case t.DType == tensor.String || !t.DType.Valid(): // the content decides
		return []string{".npy", ".pb"}
	}
	if empty, err := tensor.New(t.DType, 0); err == nil && tensor.WriteNPY(io.Discard, empty) == nil {
		return []string{".npy"}
	}
	return []string{".pb"}
}

// writeOutput writes a value to dir, which was swept, as NAME.npy, or as NAME.pb where npy cannot hold it, and returns the path.
func writeOutput(dir, name string, v tensor.Value) (string, error) {
	if t, ok := v.(*tensor.Tensor); ok {
		path := filepath.Join(dir, name+".npy")
		err := placeFile(path, func(w io.Writer) error { return tensor.WriteNPY(w, t) })
		if !errors.Is(err, tensor.ErrUnsupported) {
			return path, err
		}
	}
	b, err := tensor.AppendValue(nil, name, v)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name+".pb")
	return path, placeFile(path, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// replaceFile gives path its content in one step. A file that was there is replaced and not written through: a link to
// another stays a matter of that folder. What is no file, such as /dev/stdout or a pipe, is written to. What writers left in the
// folder that were killed is removed.
func replaceFile(path string, fill func(io.Writer) error) error {
	pending.Sweep(path)
	return placeFile(path, fill)
}

func placeFile(path string, fill func(io.Writer) error) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(fill(f), f.Close())
	}
	f, err := pending.Create(path)
	if err != nil {
		return err
	}
	err = errors.Join(fill(f), f.Close())
	if err == nil {
		err = pending.Place(f, path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error counts
	}
	return err
}
