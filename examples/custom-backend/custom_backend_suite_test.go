package main

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest"
)

func TestCustomBackend(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "examples/custom-backend")
}

// TestCompliance is what every backend has to pass.
func TestCompliance(t *testing.T) {
	backendtest.Run(t, func() backend.Backend { return newTexture() })
}
