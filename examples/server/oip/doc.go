// Package oip has the words of the Open Inference Protocol, version 2, that its REST and its gRPC form share: datatypes, requests,
// answers and errors. Package rest and package oipgrpc read and write them; package serve answers.
package oip
