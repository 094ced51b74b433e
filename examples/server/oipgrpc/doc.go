// Package oipgrpc serves the Open Inference Protocol over gRPC: the service inference.GRPCInferenceService with the protocol's
// six calls, and Triton's for configuration, statistics, repository and streams.
//
// It has no generated code, and registers nothing with protobuf's registry: programs that have stubs of their own for package
// "inference" start. Messages are read and written in the wire format, tensors without a copy more than the network's. For
// that the grpc.Server has to be made with ServerOptions; other services on it are served as ever.
package oipgrpc
