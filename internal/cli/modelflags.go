package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
)

// shapeFlags are the flags of commands that need concrete shapes.
type shapeFlags struct {
	dims, shapes []string
}

func (f *shapeFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.dims, "dim", nil, "value of a symbolic dim, `NAME=N`; unset ones are 1 (repeatable)")
	cmd.Flags().StringArrayVar(&f.shapes, "shape", nil, "shape of an input, `INPUT=1,128` (repeatable)")
}

// parse reads the flags.
func (f *shapeFlags) parse() (dims map[string]int, shapes map[string][]int, err error) {
	dims, shapes = map[string]int{}, map[string][]int{}
	for _, s := range f.dims {
		name, text, ok := cutLast(s)
		n, err := strconv.Atoi(text)
		if !ok || err != nil || n < 0 {
			return nil, nil, fmt.Errorf("--dim %s: expected NAME=N with N of at least 0", s)
		}
		if _, twice := dims[name]; twice {
			return nil, nil, fmt.Errorf("--dim %s: %q is set twice", s, name)
		}
		dims[name] = n
	}
	for _, s := range f.shapes {
		name, text, ok := cutLast(s)
		if !ok {
			return nil, nil, fmt.Errorf("--shape %s: expected INPUT=1,128", s)
		}
		if _, twice := shapes[name]; twice {
			return nil, nil, fmt.Errorf("--shape %s: %q is set twice", s, name)
		}
		shape := []int{}
		for _, d := range strings.Split(text, ",") {
			if text == "" {
				break // a scalar
			}
			n, err := strconv.Atoi(strings.TrimSpace(d))
			if err != nil || n < 0 {
				return nil, nil, fmt.Errorf("--shape %s: %q is no dim", s, d)
			}
			shape = append(shape, n)
		}
		shapes[name] = shape
	}
	return dims, shapes, nil
}

// cutLast cuts at the last "=", since names may hold one and numbers do not.
func cutLast(s string) (name, value string, ok bool) {
	i := strings.LastIndexByte(s, '=')
	if i <= 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

// backendFlags are the flags of commands that compile.
type backendFlags struct {
	names   []string
	options []string
	strict  bool
	threads int
}

func (f *backendFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.names, "backend", nil,
		"backends by name, in order of `priority`, such as cpu,reference; \"cpu\" where none is named")
	cmd.Flags().StringArrayVar(&f.options, "backend-option", nil, "option of a backend, `BACKEND.KEY=VALUE` (repeatable)")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "no implicit backends; an error where a node or group finds no place")
	cmd.Flags().IntVar(&f.threads, "threads", 0, "most threads of a run; 0 means all cores")
}

// configs returns the backends of the flags, in order.
func (f *backendFlags) configs() ([]backend.Config, error) {
	names := f.names
	if len(names) == 0 {
		names = []string{"cpu"}
	}
	var out []backend.Config
	for _, name := range names {
		name = strings.TrimSpace(name)
		if name == "" {
			return nil, fmt.Errorf("--backend %s: a name is empty", strings.Join(names, ","))
		}
		if !slices.Contains(backend.Names(), name) {
			return nil, fmt.Errorf("--backend %s: %w (known: %s)", name, backend.ErrUnknown, strings.Join(backend.Names(), ", "))
		}
		if slices.ContainsFunc(out, func(c backend.Config) bool { return c.Name == name }) {
			return nil, fmt.Errorf("--backend %s: %q is named twice", strings.Join(names, ","), name)
		}
		out = append(out, backend.Config{Name: name})
	}
	for _, s := range f.options {
		name, key, value, err := cutOption(s)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(out, func(c backend.Config) bool { return c.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("--backend-option %s: --backend does not name %q", s, name)
		}
		if out[i].Options == nil {
			out[i].Options = map[string]string{}
		}
		out[i].Options[key] = value
	}
	return out, nil
}

// cutOption reads BACKEND.KEY=VALUE.
func cutOption(s string) (name, key, value string, err error) {
	left, value, ok := strings.Cut(s, "=")
	name, key, dotted := strings.Cut(left, ".")
	if !ok || !dotted || name == "" || key == "" {
		return "", "", "", fmt.Errorf("--backend-option %s: expected BACKEND.KEY=VALUE", s)
	}
	return name, key, value, nil
}

// apply puts the flags into options.
func (f *backendFlags) apply(o *carve.Options) error {
	configs, err := f.configs()
	if err != nil {
		return err
	}
	if f.threads < 0 {
		return fmt.Errorf("--threads %d: must not be negative", f.threads)
	}
	o.Backends, o.Strict, o.Threads = configs, f.strict, f.threads
	return nil
}

// list returns the names of the backends, joined by commas.
func (f *backendFlags) list() string {
	if len(f.names) == 0 {
		return "cpu"
	}
	return strings.Join(f.names, ",")
}
