package plugin

import (
	"github.com/carve-dev/carve/backend"
)

func init() { backend.RegisterOpener(openFor) }

// openFor lists what a library brings. With options that have it run out of process, that is where it is asked.
func openFor(path string, options map[string]string) (*backend.Library, error) {
	apart, _, err := processOf(options)
	if err != nil {
		return nil, err
	}
	open := Open
	if apart != nil {
		open = func(path string) (*Library, error) { return OpenOutOfProcess(path, apart) }
	}
	l, err := open(path)
	if err != nil {
		return nil, err
	}
	lib := &backend.Library{Path: path, Name: l.name, Version: l.version, Vendor: l.vendor, Operators: l.operatorList(),
		Properties: l.propertyList(), Passes: l.passList()}
	if apart != nil && len(l.operators)+len(l.properties)+len(l.passes) > 0 {
		lib.Start = l.hold
	}
	for _, p := range l.processors {
		lib.Processors = append(lib.Processors, backend.Processor{Name: p.Name, Version: p.Version, Arch: p.Arch, Path: path,
			Driver: func(c backend.Config) (backend.Backend, error) { return openProcessor(path, p.Name, c.Options) }})
	}
	return lib, nil
}

// openProcessor opens a processor in this process, or where its options say.
func openProcessor(path, name string, options map[string]string) (backend.Backend, error) {
	apart, rest, err := processOf(options)
	if err != nil {
		return nil, err
	}
	var l *Library
	if apart != nil {
		l, err = OpenOutOfProcess(path, apart)
	} else {
		l, err = Open(path)
	}
	if err != nil {
		return nil, err
	}
	return l.Open(name, rest)
}
