//go:build !unix

package carve_test

import . "github.com/onsi/ginkgo/v2"

func makeFIFO(string) { Skip("no FIFOs here") }
