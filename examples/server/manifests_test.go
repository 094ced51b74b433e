package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// module returns the folder of a published Go module; the spec is skipped where it cannot be had.
func module(ctx SpecContext, version string) string {
	GinkgoHelper()
	out, err := exec.CommandContext(ctx, "go", "mod", "download", "-json", version).Output()
	var have struct{ Dir, Error string }
	if json.Unmarshal(out, &have) != nil || err != nil {
		Skip(version + " cannot be had: " + have.Error)
	}
	return have.Dir
}

// parsed returns a file of YAML as JSON's types.
func parsed(file string) any {
	GinkgoHelper()
	text, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	var v any
	Expect(yaml.Unmarshal(text, &v)).To(Succeed(), file)
	b, err := json.Marshal(v)
	Expect(err).NotTo(HaveOccurred())
	Expect(json.Unmarshal(b, &v)).To(Succeed())
	return v
}

// strict makes a schema of Kubernetes turn down fields that it does not know, which the API server would drop.
func strict(schema any) {
	switch s := schema.(type) {
	case []any:
		for _, x := range s {
			strict(x)
		}
	case map[string]any:
		if _, ok := s["properties"].(map[string]any); ok && s["x-kubernetes-preserve-unknown-fields"] != true && s["additionalProperties"] == nil {
			s["additionalProperties"] = false
		}
		for _, x := range s {
			strict(x)
		}
	}
}

// definition returns the schema of a version of a custom resource.
func definition(file, version string) *jsonschema.Schema {
	GinkgoHelper()
	crd := parsed(file).(map[string]any)
	for _, v := range crd["spec"].(map[string]any)["versions"].([]any) {
		v := v.(map[string]any)
		if v["name"] != version {
			continue
		}
		schema := v["schema"].(map[string]any)["openAPIV3Schema"]
		strict(schema)
		c := jsonschema.NewCompiler()
		Expect(c.AddResource("schema.json", schema)).To(Succeed())
		out, err := c.Compile("schema.json")
		Expect(err).NotTo(HaveOccurred())
		return out
	}
	Fail(file + " has no version " + version)
	return nil
}

var _ = DescribeTable("manifests keep to the published schemas", Label("manifests"),
	func(ctx SpecContext, manifest, of, definitions, version string) {
		schema := definition(filepath.Join(module(ctx, of), definitions), version)
		have := parsed(filepath.Join("deploy", manifest)).(map[string]any)
		Expect(schema.Validate(have)).To(Succeed())

		have["spec"].(map[string]any)["carve"] = true
		Expect(schema.Validate(have)).To(MatchError(ContainSubstring("carve")), "unknown fields are found")
	},
	Entry("a runtime of KServe", "runtime.yaml", "github.com/kserve/kserve@v0.16.0", "config/crd/full/serving.kserve.io_clusterservingruntimes.yaml", "v1alpha1"),
	Entry("a service of KServe", "service.yaml", "github.com/kserve/kserve@v0.16.0", "config/crd/full/serving.kserve.io_inferenceservices.yaml", "v1beta1"),
	Entry("a service of Knative", "knative.yaml", "knative.dev/serving@v0.46.0", "config/core/300-resources/service.yaml", "v1"),
)
