package backend

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/property"
)

// Library is what a vendor's library brings. It is immutable, and stays open until the process ends.
type Library struct {
	Path    string
	Name    string // the library's own
	Version string
	Vendor  string

	Processors []Processor
	Operators  []Operator
	Properties []LibraryProperty
	Passes     []LibraryPass

	// Start has the process run in which Operators, Properties and Passes work, until what it returns is closed; otherwise each call
	// of one starts a process for itself. nil: they work in this process. The error wraps ErrUnavailable.
	Start func() (LibraryProcess, error)
}

// LibraryProcess is a process that runs what a library brings beside processors.
type LibraryProcess interface {
	// Shared returns the memory of the host that kernels in it see without a copy, nil where there are no kernels.
	Shared() device.Allocator
	// Process tells how it has fared since Start.
	Process() Process
	Close() error
}

// Running is a library with its process.
type Running struct {
	Library *Library
	LibraryProcess
}

// StartLibraries starts the processes of libraries that have one. What is returned with an error has to be closed as well.
func StartLibraries(list []*Library) (running []Running, err error) {
	for _, l := range list {
		if l.Start == nil {
			continue
		}
		p, err := l.Start()
		if err != nil {
			return running, &RefusedLibrary{l.Path, err}
		}
		running = append(running, Running{l, p})
	}
	return running, nil
}

// Operator is an operator that a library brings, for nodes of its domain in any model.
type Operator struct {
	// Schema describes the operator. Its Evaluator computes nodes one by one, for who has no use for Kernel.
	Schema *graph.Schema
	// Until is the last version of the domain's operator set that has it so; 0 for the newest.
	Until int
	// Kernel prepares a node of the operator for concrete shapes. The node comes as the fused one that stands for it alone,
	// as with other kernels of properties (KernelProvider).
	Kernel func(fused *graph.Node, b graph.Bindings) (Kernel, error)
}

// LibraryProperty is a property that a library brings for a backend.
type LibraryProperty struct {
	Backend  string // name; "" for each that can make use of it
	Property property.SubgraphProperty
}

// PropertiesOf returns the library's properties for a backend: those that name it, and those for every one that can make use
// of them, which for a kernel is one that calls kernels.
func (l *Library) PropertiesOf(b Info) []property.SubgraphProperty {
	var out []property.SubgraphProperty
	base, _, _ := property.CutDevice(b.Name)
	for _, p := range l.Properties {
		if p.Backend == base || p.Backend == "" && (b.Kernels || property.RuleOf(p.Property).Kernel == nil) {
			out = append(out, p.Property)
		}
	}
	return out
}

// LibraryPass is a pass over the model's graph that a library brings: before, or after, a pass by its name.
type LibraryPass struct {
	Name          string
	Before, After string
	Run           func(ctx context.Context, g *graph.Graph) error
}

// Libraries opens vendors' libraries: files, and of folders every file with the ending that libraries have on this system, in
// the order of their names. refused are those files of folders that cannot be used. The error, a *RefusedLibrary, is about a
// file that paths name itself, about two processors, operators or passes of one name, or wraps ErrNoOpener.
//
// The options given hold for the libraries, and for processors that name no others; configs are the backends that are asked for. Where the
// options do not say whether the libraries run out of process (OutOfProcess), and one of the backends is to, what any of the libraries
// brings does so with that backend's options, but for processors, which have their own.
func Libraries(given map[string]string, configs []Config, paths ...string) (list []*Library, refused []*RefusedLibrary, err error) {
	options := given
	if _, said := given[OutOfProcess]; !said {
		for _, c := range configs {
			if on, err := strconv.ParseBool(c.Options[OutOfProcess]); on && err == nil {
				options = c.Options
				break
			}
		}
	}
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
			found, err := open(file, options)
			if err == nil {
				found.lean(given)
				err = clashes(list, found)
			}
			switch {
			case err == nil:
				list = append(list, found)
			case folder:
				refused = append(refused, &RefusedLibrary{file, err})
			default:
				return nil, nil, &RefusedLibrary{file, err}
			}
		}
	}
	return list, refused, nil
}

// lean has processors take options that theirs do not name.
func (l *Library) lean(on map[string]string) {
	if len(on) == 0 {
		return
	}
	for i := range l.Processors {
		open := l.Processors[i].Driver
		l.Processors[i].Driver = func(c Config) (Backend, error) {
			own := c.Options
			c.Options = maps.Clone(on)
			maps.Copy(c.Options, own)
			return open(c)
		}
	}
}

// clashes returns an error where a library brings what has a name that is taken.
func clashes(list []*Library, found *Library) error {
	for _, l := range list {
		for _, p := range found.Processors {
			if slices.ContainsFunc(l.Processors, func(q Processor) bool { return q.Name == p.Name }) {
				return fmt.Errorf("%w: processor %q is also one of %s", ErrOption, p.Name, l.Path)
			}
		}
		for _, p := range found.Passes {
			if slices.ContainsFunc(l.Passes, func(q LibraryPass) bool { return q.Name == p.Name }) {
				return fmt.Errorf("%w: pass %q is also one of %s", ErrOption, p.Name, l.Path)
			}
		}
		for i := range found.Operators {
			if o := &found.Operators[i]; slices.ContainsFunc(l.Operators, o.meets) {
				return fmt.Errorf("%w: operator %v since version %d is also one of %s", ErrOption, o.op(), o.Schema.Since, l.Path)
			}
		}
	}
	for _, p := range found.Processors {
		if slices.Contains(Names(), p.Name) {
			return fmt.Errorf("%w: processor %q has the name of a backend that is linked in", ErrOption, p.Name)
		}
	}
	for i := range found.Operators {
		o := &found.Operators[i]
		if len(graph.SchemaVersions(o.Schema.Domain, o.Schema.Name)) > 0 {
			return fmt.Errorf("%w: operator %v is registered already", ErrOption, o.op())
		}
		if slices.ContainsFunc(found.Operators[:i], o.meets) {
			return fmt.Errorf("%w: operator %v is there twice for version %d", ErrOption, o.op(), o.Schema.Since)
		}
	}
	return nil
}

func (o *Operator) op() graph.Op {
	return graph.Op{Domain: o.Schema.Domain, Name: o.Schema.Name, Since: o.Schema.Since}
}

// has reports whether the operator is that of the name in a version of its domain's operator set.
func (o *Operator) has(domain, name string, version int) bool {
	return o.Schema.Domain == domain && o.Schema.Name == name && o.Schema.Since <= version && (o.Until == 0 || version <= o.Until)
}

// meets reports whether two operators are there for one version of one operator.
func (o *Operator) meets(other Operator) bool {
	s := other.Schema
	return o.has(s.Domain, s.Name, max(s.Since, o.Schema.Since)) && other.has(s.Domain, s.Name, max(s.Since, o.Schema.Since))
}

// SchemaOf returns the schema of an operator of libraries in a version of its domain's operator set, nil where none has it.
// A model that imports no version gets the newest.
func SchemaOf(list []*Library, domain, name string, version int) *graph.Schema {
	var best *Operator
	for _, l := range list {
		for i := range l.Operators {
			o := &l.Operators[i]
			newest := version >= anyVersion && o.Schema.Domain == domain && o.Schema.Name == name
			if (newest || o.has(domain, name, version)) && (best == nil || best.Schema.Since < o.Schema.Since) {
				best = o
			}
		}
	}
	if best == nil {
		return nil
	}
	return best.Schema
}

// anyVersion is the version of an operator set that a graph does not import.
const anyVersion = 1 << 30
