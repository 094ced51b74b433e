"""Writes classical models, with operands of some numbers of rows as x_ROWS.npy. Usage: models.py FOLDER"""
import os
import sys
import warnings

import lightgbm
import numpy as np
import onnx
import xgboost
from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm
from onnxmltools.convert.xgboost.operator_converters.XGBoost import convert_xgboost
from skl2onnx import to_onnx, update_registered_converter
from skl2onnx.common.data_types import FloatTensorType
from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes, calculate_linear_regressor_output_shapes
from sklearn import ensemble, linear_model, preprocessing, svm
from sklearn.pipeline import make_pipeline

warnings.filterwarnings("ignore")
CHOICE = {"nocl": [True, False], "zipmap": [True, False, "columns"]}
update_registered_converter(lightgbm.LGBMClassifier, "LightGbmLGBMClassifier", calculate_linear_classifier_output_shapes, convert_lightgbm, options=CHOICE)
update_registered_converter(xgboost.XGBRegressor, "XGBoostXGBRegressor", calculate_linear_regressor_output_shapes, convert_xgboost)

rng = np.random.default_rng(1)
X = rng.standard_normal((3000, 20)).astype(np.float32)
Y = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + 0.1 * rng.standard_normal(3000)
K = np.digitize(Y, [-0.7, 0, 0.7])
SOME = slice(0, 400)
MODELS = {
    "forest of 100, deep": ensemble.RandomForestRegressor(100, random_state=1).fit(X, Y),
    "forest of 100, depth 6": ensemble.RandomForestRegressor(100, max_depth=6, random_state=1).fit(X, Y),
    "forest of 10, depth 4": ensemble.RandomForestRegressor(10, max_depth=4, random_state=1).fit(X, Y),
    "boosting of 100, depth 3": ensemble.GradientBoostingRegressor(random_state=1).fit(X, Y),
    "forest classifier of 100, 4 classes": ensemble.RandomForestClassifier(100, random_state=1).fit(X, K),
    "forest classifier of 100, 2 classes": ensemble.RandomForestClassifier(100, max_depth=8, random_state=1).fit(X, Y > 0),
    "LightGBM of 200, 31 leaves": lightgbm.LGBMClassifier(n_estimators=200, verbose=-1).fit(X, Y > 0),
    "LightGBM of 100, 4 classes": lightgbm.LGBMClassifier(n_estimators=100, verbose=-1).fit(X, K),
    "XGBoost of 300, depth 6": xgboost.XGBRegressor(n_estimators=300).fit(X, Y),
    "isolation forest": ensemble.IsolationForest(random_state=1).fit(X),
    "scaler and logistic regression": make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression()).fit(X, K),
    "linear regression": linear_model.LinearRegression().fit(X, Y),
    "SVC": svm.SVC().fit(X[SOME], Y[SOME] > 0),
    "SVC with probabilities": svm.SVC(probability=True).fit(X[SOME], K[SOME]),
    "SVR": svm.SVR().fit(X[SOME], Y[SOME]),
    "scaler, normalizer": make_pipeline(preprocessing.StandardScaler(), preprocessing.Normalizer()).fit(X),
}
for name, model in MODELS.items():
    folder = os.path.join(sys.argv[1], name)
    os.makedirs(folder)
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    options = {id(model): {"zipmap": False}} if hasattr(last, "predict_proba") or type(last).__name__ == "SVC" else None
    onnx.save(to_onnx(model, initial_types=[("X", FloatTensorType([None, 20]))], options=options, target_opset={"": 17, "ai.onnx.ml": 3}), os.path.join(folder, "model.onnx"))
    for rows in (1, 1000):
        np.save(os.path.join(folder, f"x_{rows}.npy"), X[:rows])
