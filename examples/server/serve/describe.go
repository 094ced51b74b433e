package serve

import (
	"context"

	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/repository"
)

// extensions are the names of what the server does beyond the protocol, as clients look for them.
var extensions = []string{
	"classification", "sequence", "sequence(string_id)", "model_repository", "model_repository(unload_dependents)", "schedule_policy",
	"model_configuration", "binary_tensor_data", "parameters", "statistics",
}

// Metadata is what the server says of itself.
type Metadata struct {
	Name       string   `json:"name"`
	Version    string   `json:"version"`
	Extensions []string `json:"extensions"`
}

// Metadata returns what the server says of itself.
func (s *Server) Metadata() Metadata { return Metadata{s.o.Name, s.o.Version, extensions} }

// ModelMetadata is what the server says of a model.
type ModelMetadata struct {
	Name     string           `json:"name"`
	Versions []string         `json:"versions"`
	Platform string           `json:"platform"`
	Inputs   []TensorMetadata `json:"inputs"`
	Outputs  []TensorMetadata `json:"outputs"`
}

// TensorMetadata describes an input or output; -1 stands for an open dim.
type TensorMetadata struct {
	Name     string  `json:"name"`
	Datatype string  `json:"datatype"`
	Shape    []int64 `json:"shape"`
}

// ModelMetadata returns what the server says of a model.
func (s *Server) ModelMetadata(name, version string) (*ModelMetadata, error) {
	v, err := s.models.Describe(name, version)
	if err != nil {
		return nil, err
	}
	return &ModelMetadata{v.Name, s.models.Versions(name), repository.Platform, tensors(v.Inputs), tensors(v.Outputs)}, nil
}

func tensors(ports []repository.Port) []TensorMetadata {
	out := make([]TensorMetadata, len(ports))
	for i, p := range ports {
		out[i] = TensorMetadata{p.Name, p.Datatype, p.Shape}
		if p.Shape == nil {
			out[i].Shape = []int64{-1}
		}
	}
	return out
}

// Config returns a model's configuration.
func (s *Server) Config(name, version string) (*repository.Config, error) {
	v, err := s.models.Describe(name, version)
	if err != nil {
		return nil, err
	}
	return v.Config, nil
}

// Statistics returns the versions whose numbers were asked for: all for "", those of a model, or one.
func (s *Server) Statistics(name, version string) ([]*repository.Version, error) {
	if name != "" {
		if _, err := s.models.Describe(name, version); err != nil {
			return nil, err
		}
	}
	var out []*repository.Version
	for _, v := range s.models.All() {
		if (name == "" || v.Name == name) && (version == "" || v.String() == version) {
			out = append(out, v)
		}
	}
	return out, nil
}

// Index returns the state of all models, or of those that are ready.
func (s *Server) Index(ready bool) []repository.Status {
	var out []repository.Status
	for _, x := range s.models.Index() {
		if !ready || x.State == "READY" {
			out = append(out, x)
		}
	}
	return out
}

// Load loads a model for a client.
func (s *Server) Load(ctx context.Context, name string, u repository.Upload) error {
	if err := s.mayChange("load"); err != nil {
		return err
	}
	return s.models.Load(ctx, name, u)
}

// Unload unloads a model for a client.
func (s *Server) Unload(name string) error {
	if err := s.mayChange("unload"); err != nil {
		return err
	}
	return s.models.Unload(name)
}

func (s *Server) mayChange(what string) error {
	if !s.o.Explicit {
		return oip.Errorf(oip.Unavailable, "explicit model load / unload is not allowed: %s needs the server's option --model-control explicit", what)
	}
	return nil
}
