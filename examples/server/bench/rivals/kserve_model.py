"""ONNX Runtime behind KServe's server: one session, one thread a run. python kserve_model.py --http_port P --grpc_port P --model_name N"""
import argparse
import os

import onnxruntime
from kserve import InferOutput, InferResponse, Model, ModelServer, model_server


class ONNX(Model):
    def load(self):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(os.environ["MODEL_FILE"], options, providers=["CPUExecutionProvider"])
        self.types = {"tensor(float)": "FP32", "tensor(double)": "FP64", "tensor(int64)": "INT64", "tensor(int32)": "INT32"}
        self.ready = True
        return True

    def predict(self, request, headers=None, response_headers=None):
        values = self.session.run(None, {x.name: x.as_numpy() for x in request.inputs})
        outputs = []
        for o, v in zip(self.session.get_outputs(), values):
            out = InferOutput(o.name, list(v.shape), self.types[o.type])
            out.set_data_from_numpy(v, binary_data=request.from_grpc)
            outputs.append(out)
        return InferResponse(request.id or "", self.name, outputs)


if __name__ == "__main__":
    args, _ = argparse.ArgumentParser(parents=[model_server.parser]).parse_known_args()
    model = ONNX(args.model_name)
    model.load()
    ModelServer().start([model])
