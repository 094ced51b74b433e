package rest

import (
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/repository"
)

// body calls member for each member of a body in JSON, which may be empty.
func (h *handler) body(w http.ResponseWriter, r *http.Request, member func(name string, v gjson.Result) error) (release func(), err error) {
	a, err := h.s.Admit()
	if err != nil {
		return nil, err
	}
	b, err := h.open(w, r, a)
	if err == nil {
		defer b.close()
		var all []byte
		if all, err = b.rest(); err == nil && len(all) > 0 {
			var v gjson.Result
			if v, err = parse(all); err != nil {
				err = oip.Errorf(oip.InvalidArgument, "failed to parse the request JSON: %w", err)
			} else {
				err = members(v, "the request", member)
			}
		}
	}
	if err != nil {
		a.Release()
		return nil, err
	}
	return a.Release, nil
}

// index lists the models of the repository.
func (h *handler) index(w http.ResponseWriter, r *http.Request) error {
	ready := false
	release, err := h.body(w, r, func(name string, v gjson.Result) error {
		if name == "ready" {
			if ready = v.Type == gjson.True; !ready && v.Type != gjson.False && v.Type != gjson.Null {
				return mismatch(name, "bool")
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	defer release()
	type entry struct {
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
		State   string `json:"state,omitempty"`
		Reason  string `json:"reason,omitempty"`
	}
	out := []entry{}
	for _, x := range h.s.Index(ready) {
		out = append(out, entry(x))
	}
	write(w, http.StatusOK, out)
	return nil
}

// change does what a call asks of a model, of whose parameters parameter is told, and answers that it is done: Triton's answer is empty,
// KServe's client reads ours.
func (h *handler) change(w http.ResponseWriter, r *http.Request, done string, parameter func(name string, v gjson.Result) error, do func(name string) error) error {
	release, err := h.body(w, r, func(name string, v gjson.Result) error {
		if name == "parameters" {
			return members(v, name, parameter)
		}
		return nil
	})
	if err != nil {
		return err
	}
	defer release()
	name := r.PathValue("model")
	if err := do(name); err != nil {
		return err
	}
	write(w, http.StatusOK, map[string]any{"name": name, done: true})
	return nil
}

// load loads a model: as it lies in the repository, or with a configuration and files that the call carries.
func (h *handler) load(w http.ResponseWriter, r *http.Request) error {
	u := repository.Upload{Files: map[string][]byte{}}
	return h.change(w, r, "load", func(name string, v gjson.Result) error { return uploaded(&u, name, v) },
		func(name string) error { return h.s.Load(r.Context(), name, u) })
}

// uploaded reads a parameter of a call to load: the configuration, or a file.
func uploaded(u *repository.Upload, name string, v gjson.Result) (err error) {
	file, isFile := strings.CutPrefix(name, "file:")
	switch {
	case v.Type != gjson.String:
		return oip.Errorf(oip.InvalidArgument, "parameter %.200q has to be a string", name)
	case name == "config":
		u.Config = []byte(v.Str)
	case isFile && len(u.Files) == repository.MaxFiles:
		return oip.Errorf(oip.InvalidArgument, "the request has more than %d files", repository.MaxFiles)
	case isFile:
		u.Files[file], err = repository.DecodeFile(file, v.Str)
	default:
		return oip.Errorf(oip.InvalidArgument, "parameter %.200q is none of config and file:…", name)
	}
	return err
}

// unload unloads a model.
func (h *handler) unload(w http.ResponseWriter, r *http.Request) error {
	return h.change(w, r, "unload", func(string, gjson.Result) error { return nil }, h.s.Unload)
}
