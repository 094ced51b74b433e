package plugin

import "github.com/carve-dev/carve/backend"

func init() {
	backend.RegisterOpener(func(path string) (*backend.Library, error) {
		l, err := Open(path)
		if err != nil {
			return nil, err
		}
		lib := &backend.Library{Path: path, Name: l.name, Version: l.version, Vendor: l.vendor, Operators: l.operatorList(),
			Properties: l.propertyList(), Passes: l.passList()}
		for _, p := range l.processors {
			lib.Processors = append(lib.Processors, backend.Processor{Name: p.Name, Version: p.Version, Arch: p.Arch, Path: path,
				Driver: func(c backend.Config) (backend.Backend, error) { return l.Open(p.Name, c.Options) }})
		}
		return lib, nil
	})
}
