package rest

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/repository"
)

// body reads a whole body in JSON; an empty one leaves v as it is.
func (h *handler) body(w http.ResponseWriter, r *http.Request, v any) (release func(), err error) {
	a, err := h.s.Admit()
	if err != nil {
		return nil, err
	}
	b, err := h.open(w, r, a)
	if err == nil {
		defer b.close()
		var all []byte
		if all, err = b.rest(); err == nil && len(all) > 0 {
			if err = json.Unmarshal(all, v); err != nil {
				err = oip.Errorf(oip.InvalidArgument, "failed to parse the request JSON: %w", err)
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
	var in struct {
		Ready bool `json:"ready"`
	}
	release, err := h.body(w, r, &in)
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
	for _, x := range h.s.Index(in.Ready) {
		out = append(out, entry(x))
	}
	write(w, http.StatusOK, out)
	return nil
}

// change does what a call asks of a model, with the call's parameters, and answers that it is done: Triton's answer is empty, KServe's
// client reads ours.
func (h *handler) change(w http.ResponseWriter, r *http.Request, done string, do func(name string, parameters map[string]any) error) error {
	var in struct {
		Parameters map[string]any `json:"parameters"`
	}
	release, err := h.body(w, r, &in)
	if err != nil {
		return err
	}
	defer release()
	name := r.PathValue("model")
	if err := do(name, in.Parameters); err != nil {
		return err
	}
	write(w, http.StatusOK, map[string]any{"name": name, done: true})
	return nil
}

// load loads a model: as it lies in the repository, or with a configuration and files that the call carries.
func (h *handler) load(w http.ResponseWriter, r *http.Request) error {
	return h.change(w, r, "load", func(name string, parameters map[string]any) error {
		u, err := uploadOf(parameters)
		if err != nil {
			return err
		}
		return h.s.Load(r.Context(), name, u)
	})
}

// uploadOf returns the configuration and the files that the parameters of a call to load carry.
func uploadOf(parameters map[string]any) (u repository.Upload, err error) {
	u.Files = map[string][]byte{}
	for name, value := range parameters {
		text, ok := value.(string)
		file, isFile := strings.CutPrefix(name, "file:")
		switch {
		case !ok:
			return u, oip.Errorf(oip.InvalidArgument, "parameter %.200q has to be a string", name)
		case name == "config":
			u.Config = []byte(text)
		case isFile:
			if u.Files[file], err = repository.DecodeFile(file, text); err != nil {
				return u, err
			}
		default:
			return u, oip.Errorf(oip.InvalidArgument, "parameter %.200q is none of config and file:…", name)
		}
	}
	return u, nil
}

// unload unloads a model.
func (h *handler) unload(w http.ResponseWriter, r *http.Request) error {
	return h.change(w, r, "unload", func(name string, _ map[string]any) error { return h.s.Unload(name) })
}
