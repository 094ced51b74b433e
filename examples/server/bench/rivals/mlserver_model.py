"""ONNX Runtime behind MLServer: one session, one thread a run, in the server's own process."""
import os

import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class Model(MLModel):
    async def load(self) -> bool:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(os.environ["MODEL_FILE"], options, providers=["CPUExecutionProvider"])
        return True

    async def predict(self, request: InferenceRequest) -> InferenceResponse:
        feeds = {x.name: NumpyCodec.decode_input(x) for x in request.inputs}
        outputs = self.session.run(None, feeds)
        return InferenceResponse(
            model_name=self.name,
            outputs=[NumpyCodec.encode_output(o.name, v) for o, v in zip(self.session.get_outputs(), outputs)],
        )
