"""Writes pipelines of classical models, as skl2onnx and onnxmltools convert them, with what ONNX Runtime computes of them, in the form of
ONNX's own test data; a sequence is written as one tensor: of a ZipMap's maps the numbers, in the order of the keys.
Usage: classical.py FOLDER SEED"""
import os
import sys
import warnings

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper
from skl2onnx import to_onnx, update_registered_converter
from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, Int64TensorType, StringTensorType
from sklearn import calibration, cluster, compose, cross_decomposition, decomposition, discriminant_analysis, ensemble, feature_extraction
from sklearn import feature_selection, gaussian_process, impute, isotonic, kernel_approximation, linear_model, mixture, multiclass, multioutput
from sklearn import naive_bayes, neighbors, neural_network, preprocessing, random_projection, svm, tree
from sklearn.pipeline import make_pipeline, make_union

warnings.filterwarnings("ignore")
FLOAT, DOUBLE, INT, TEXT = FloatTensorType, DoubleTensorType, Int64TensorType, StringTensorType


def numbers(rng, rows=40, columns=6):
    x = rng.standard_normal((rows, columns))
    return np.round(x * 4) / 4 if rng.integers(2) else x  # exact in float32, with ties, or not


def holes(rng, x, hole=np.nan):
    x = x.copy()
    x[rng.random(x.shape) < 0.15] = hole
    return x


WORDS = "the cat sat on a mat while dogs run far and birds sing in tall trees at dawn Zoo über naïve".split()


def sentences(rng, rows=30):
    return np.array([" ".join(rng.choice(WORDS, rng.integers(2, 12))) for _ in range(rows)]).reshape(-1, 1)


def classifiers(seed):
    e = dict(random_state=seed)
    yield from [
        linear_model.LogisticRegression(), linear_model.SGDClassifier(**e), linear_model.RidgeClassifier(), linear_model.Perceptron(**e),
        linear_model.PassiveAggressiveClassifier(**e), svm.LinearSVC(), svm.SVC(), svm.SVC(kernel="linear"), svm.SVC(kernel="poly", degree=2),
        svm.SVC(kernel="sigmoid"), svm.SVC(probability=True, **e), svm.NuSVC(nu=0.3), svm.NuSVC(nu=0.3, probability=True, **e),
        tree.DecisionTreeClassifier(**e), tree.ExtraTreeClassifier(**e), ensemble.RandomForestClassifier(20, **e), ensemble.ExtraTreesClassifier(20, **e),
        ensemble.GradientBoostingClassifier(n_estimators=10, **e), ensemble.HistGradientBoostingClassifier(max_iter=10, **e),
        ensemble.AdaBoostClassifier(n_estimators=5, **e), ensemble.BaggingClassifier(n_estimators=4, **e),
        ensemble.VotingClassifier([("a", linear_model.LogisticRegression()), ("b", tree.DecisionTreeClassifier(**e))], voting="soft"),
        ensemble.StackingClassifier([("a", linear_model.LogisticRegression()), ("b", tree.DecisionTreeClassifier(**e))]),
        naive_bayes.GaussianNB(), naive_bayes.BernoulliNB(), neighbors.KNeighborsClassifier(3), neighbors.KNeighborsClassifier(4, weights="distance"),
        neighbors.RadiusNeighborsClassifier(5.0), neighbors.NearestCentroid(), neural_network.MLPClassifier((9,), max_iter=40, **e),
        neural_network.MLPClassifier((9, 5), activation="tanh", max_iter=40, **e), discriminant_analysis.LinearDiscriminantAnalysis(),
        discriminant_analysis.QuadraticDiscriminantAnalysis(), calibration.CalibratedClassifierCV(svm.LinearSVC(), cv=2),
        multiclass.OneVsRestClassifier(linear_model.LogisticRegression()), multiclass.OneVsOneClassifier(linear_model.LogisticRegression()),
        gaussian_process.GaussianProcessClassifier(), linear_model.LogisticRegressionCV(cv=2),
    ]


def regressors(seed):
    e = dict(random_state=seed)
    yield from [
        linear_model.LinearRegression(), linear_model.Ridge(), linear_model.Lasso(0.1), linear_model.ElasticNet(0.1), linear_model.BayesianRidge(),
        linear_model.ARDRegression(), linear_model.HuberRegressor(), linear_model.SGDRegressor(**e), linear_model.TheilSenRegressor(**e),
        linear_model.PoissonRegressor(), linear_model.TweedieRegressor(), linear_model.GammaRegressor(), linear_model.RANSACRegressor(**e),
        linear_model.QuantileRegressor(), linear_model.Lars(), linear_model.OrthogonalMatchingPursuit(),
        svm.SVR(), svm.SVR(kernel="linear"), svm.SVR(kernel="poly"), svm.SVR(kernel="sigmoid"), svm.NuSVR(), svm.LinearSVR(),
        tree.DecisionTreeRegressor(**e), tree.ExtraTreeRegressor(**e), ensemble.RandomForestRegressor(20, **e), ensemble.ExtraTreesRegressor(20, **e),
        ensemble.GradientBoostingRegressor(n_estimators=10, **e), ensemble.HistGradientBoostingRegressor(max_iter=10, **e),
        ensemble.AdaBoostRegressor(n_estimators=5, **e), ensemble.BaggingRegressor(n_estimators=4, **e),
        ensemble.VotingRegressor([("a", linear_model.LinearRegression()), ("b", tree.DecisionTreeRegressor(**e))]),
        ensemble.StackingRegressor([("a", linear_model.LinearRegression()), ("b", tree.DecisionTreeRegressor(**e))]),
        neighbors.KNeighborsRegressor(3), neighbors.KNeighborsRegressor(4, weights="distance"), neighbors.KNeighborsRegressor(3, p=1),
        neighbors.RadiusNeighborsRegressor(5.0), neural_network.MLPRegressor(hidden_layer_sizes=(9,), max_iter=40, **e), gaussian_process.GaussianProcessRegressor(**e),
        cross_decomposition.PLSRegression(2),
    ]


def transformers(seed):
    e = dict(random_state=seed)
    yield from [
        preprocessing.StandardScaler(), preprocessing.MinMaxScaler(clip=True), preprocessing.MaxAbsScaler(), preprocessing.RobustScaler(),
        preprocessing.Normalizer("l1"), preprocessing.Normalizer("l2"), preprocessing.Normalizer("max"), preprocessing.Binarizer(threshold=0.2),
        preprocessing.PolynomialFeatures(3), preprocessing.PolynomialFeatures(2, interaction_only=True), preprocessing.KBinsDiscretizer(4),
        preprocessing.KBinsDiscretizer(4, encode="ordinal"), preprocessing.PowerTransformer(), preprocessing.FunctionTransformer(),
        decomposition.PCA(3), decomposition.PCA(3, whiten=True), decomposition.TruncatedSVD(3), decomposition.IncrementalPCA(3), decomposition.KernelPCA(3, kernel="rbf"),
        random_projection.GaussianRandomProjection(3, **e), cluster.KMeans(3, n_init=2, **e), cluster.MiniBatchKMeans(3, n_init=2, **e),
        mixture.GaussianMixture(n_components=2, **e), mixture.BayesianGaussianMixture(n_components=2, **e), ensemble.IsolationForest(n_estimators=8, **e), svm.OneClassSVM(nu=0.3),
        neighbors.LocalOutlierFactor(5, novelty=True), neighbors.KNeighborsTransformer(n_neighbors=3), feature_selection.VarianceThreshold(0.1),
        kernel_approximation.Nystroem(n_components=4, **e), ensemble.RandomTreesEmbedding(n_estimators=4, max_depth=3, **e),
    ]


def trees(seed, classes):
    """LightGBM's and XGBoost's models, classifiers of so many classes or, for 0, regressors."""
    import lightgbm
    import xgboost
    common = dict(n_estimators=12, random_state=seed)
    if classes:
        yield lightgbm.LGBMClassifier(verbose=-1, min_child_samples=2, **common)
        yield lightgbm.LGBMClassifier(verbose=-1, boosting_type="rf", bagging_freq=1, bagging_fraction=0.7, **common)
        yield xgboost.XGBClassifier(max_depth=3, **common)
        yield xgboost.XGBRFClassifier(max_depth=3, **common)
    else:
        for objective in ("regression", "poisson", "l1", "quantile", "gamma", "tweedie"):
            yield lightgbm.LGBMRegressor(verbose=-1, min_child_samples=2, objective=objective, **common)
        for objective in ("reg:squarederror", "count:poisson", "reg:gamma", "reg:logistic", "reg:tweedie", "binary:hinge"):
            yield xgboost.XGBRegressor(max_depth=3, objective=objective, **common)
        yield xgboost.XGBRFRegressor(max_depth=3, **common)


def register():
    from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm
    from onnxmltools.convert.xgboost.operator_converters.XGBoost import convert_xgboost
    from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes as c, calculate_linear_regressor_output_shapes as r
    import lightgbm
    import xgboost
    options = {"nocl": [True, False], "zipmap": [True, False, "columns"]}
    update_registered_converter(lightgbm.LGBMClassifier, "LightGbmLGBMClassifier", c, convert_lightgbm, options=options)
    update_registered_converter(lightgbm.LGBMRegressor, "LightGbmLGBMRegressor", r, convert_lightgbm, options={"split": None})
    update_registered_converter(xgboost.XGBClassifier, "XGBoostXGBClassifier", c, convert_xgboost, options=options)
    update_registered_converter(xgboost.XGBRFClassifier, "XGBoostXGBRFClassifier", c, convert_xgboost, options=options)
    update_registered_converter(xgboost.XGBRegressor, "XGBoostXGBRegressor", r, convert_xgboost)
    update_registered_converter(xgboost.XGBRFRegressor, "XGBoostXGBRFRegressor", r, convert_xgboost)


def name(m):
    return type(m).__name__


def cases(rng, seed):
    """Yields names, models, targets, operands, their types, and options of the conversion."""
    x = numbers(rng)
    two, three = rng.integers(0, 2, 40), rng.permutation(np.arange(40) % 3)
    y = x @ rng.standard_normal(6) + 0.1 * rng.standard_normal(40)
    text = np.array(["low", "middle", "high"])[three]
    for i, m in enumerate(classifiers(seed)):
        labels = (three, text, two)[i % 3]
        yield name(m), m, labels, x, (FLOAT, FLOAT, DOUBLE)[(i + i // 3) % 3], {"zipmap": (i + i // 4) % 4 == 0} if i % 7 else {"zipmap": "columns"}
    for i, m in enumerate(regressors(seed)):
        yield name(m), m, (np.abs(y) + 0.1 if "Gamma" in name(m) or "Poisson" in name(m) or "Tweedie" in name(m) else y), x, (FLOAT, DOUBLE)[i % 3 == 2], {}
    for i, m in enumerate(transformers(seed)):
        yield name(m), m, None, x, (FLOAT, DOUBLE)[i % 4 == 3], {}
    for labels, classes in ((two, 2), (three, 3), (None, 0)):
        for m in trees(seed, classes):
            target = y if labels is None else labels
            if labels is None:
                objective = str(m.get_params().get("objective"))
                target = np.abs(y) + 0.1
                if "logistic" in objective or "hinge" in objective:
                    target = (y > 0).astype(float)
            yield f"{name(m)} {m.get_params().get('objective')} of {classes}", m, target, x, FLOAT, {"zipmap": False} if classes else {}
    for labels, classes in ((two, 2), (y + 9, 0)):
        for m in (*trees(seed, classes), ensemble.HistGradientBoostingRegressor(max_iter=10)):
            if "hinge" not in str(m.get_params()) and "logistic" not in str(m.get_params()):
                yield f"{name(m)} {m.get_params().get('objective')} of {classes} with holes", m, labels, holes(rng, x), FLOAT, {"zipmap": False} if "Class" in name(m) else {}
    for m in (impute.SimpleImputer(), impute.SimpleImputer(strategy="median"), impute.KNNImputer(n_neighbors=2)):
        yield name(m), make_pipeline(m, preprocessing.StandardScaler()), None, holes(rng, x), FLOAT, {}
    yield from pipelines(rng, x, y, three, text)


def pipelines(rng, x, y, three, text):
    small = rng.integers(0, 4, (40, 3))
    names = np.array(["red", "green", "blue", "Ünï"])[small]
    for m in (preprocessing.OneHotEncoder(handle_unknown="ignore"), preprocessing.OneHotEncoder(drop="first"), preprocessing.OrdinalEncoder()):
        yield name(m) + " of strings", m, None, names, TEXT, {}
        yield name(m) + " of integers", m, None, small, INT, {}
    yield "OneHotEncoder and forest", make_pipeline(preprocessing.OneHotEncoder(), ensemble.RandomForestClassifier(5)), text, names, TEXT, {"zipmap": True}
    lines = sentences(rng)
    kinds = rng.integers(0, 2, len(lines))
    t = feature_extraction.text
    for m in (t.CountVectorizer(), t.CountVectorizer(binary=True, ngram_range=(1, 2)), t.TfidfVectorizer(), t.TfidfVectorizer(ngram_range=(1, 3), sublinear_tf=True),
              t.TfidfVectorizer(analyzer="char", ngram_range=(2, 3)), t.TfidfVectorizer(stop_words=["the", "a"], lowercase=False)):
        yield name(m), make_pipeline(m, linear_model.LogisticRegression()), kinds, lines, TEXT, {"zipmap": False}
    scaled = lambda *m: make_pipeline(preprocessing.StandardScaler(), *m)
    yield "scaled SVC", scaled(svm.SVC(probability=True)), text, x, FLOAT, {"zipmap": True}
    yield "scaled PCA KNN", scaled(decomposition.PCA(3), neighbors.KNeighborsClassifier(3)), three, x, FLOAT, {"zipmap": False}
    yield "union", make_pipeline(make_union(preprocessing.StandardScaler(), decomposition.PCA(2)), linear_model.Ridge()), y, x, FLOAT, {}
    yield "columns", make_pipeline(compose.ColumnTransformer([("a", preprocessing.MinMaxScaler(), [0, 2]), ("b", preprocessing.PolynomialFeatures(2), [1, 3, 5])]),
                                   ensemble.GradientBoostingRegressor(n_estimators=5)), y, x, FLOAT, {}
    yield "selected", make_pipeline(feature_selection.SelectKBest(k=3), linear_model.LogisticRegression()), three, x, FLOAT, {"zipmap": True}
    yield "several targets", ensemble.RandomForestRegressor(6), np.stack([y, -y, y * y], 1), x, FLOAT, {}
    yield "several outputs", multioutput.MultiOutputRegressor(linear_model.Ridge()), np.stack([y, -y], 1), x, FLOAT, {}
    yield "several classes", multioutput.MultiOutputClassifier(linear_model.LogisticRegression()), np.stack([three, three > 0], 1), x, FLOAT, {"zipmap": False}
    yield "a large forest", ensemble.RandomForestRegressor(100), y, x, FLOAT, {}
    yield "a large classifier", ensemble.RandomForestClassifier(100), three, x, FLOAT, {"zipmap": False}
    yield "MultinomialNB", naive_bayes.MultinomialNB(), three, np.abs(x), FLOAT, {"zipmap": False}
    yield "ComplementNB", naive_bayes.ComplementNB(), three, np.abs(x), FLOAT, {"zipmap": False}
    yield "CategoricalNB", naive_bayes.CategoricalNB(), three, small, INT, {"zipmap": False}
    yield "labels", preprocessing.LabelEncoder(), None, names[:, 0], TEXT, {}
    yield "binary labels", preprocessing.LabelBinarizer(), None, small[:, 0], INT, {}


def flat(v):
    if not isinstance(v, list):
        return v
    return np.concatenate([np.ravel(np.array(list(m.values()), np.float32) if isinstance(m, dict) else m) for m in v])


def save(folder, prefix, value, label):
    with open(os.path.join(folder, f"{prefix}.pb"), "wb") as f:
        f.write(numpy_helper.from_array(value.astype(object) if value.dtype.kind in "UO" else value, label).SerializeToString())


def write(folder, model, operand):
    data = os.path.join(folder, "test_data_set_0")
    os.makedirs(data)
    path = os.path.join(folder, "model.onnx")
    onnx.save(model, path)
    o = ort.SessionOptions()
    o.log_severity_level, o.intra_op_num_threads = 4, 1
    s = ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])
    (x,) = s.get_inputs()
    for i, (out, v) in enumerate(zip(s.get_outputs(), s.run(None, {x.name: operand}))):
        save(data, f"output_{i}", flat(v), out.name)
    save(data, "input_0", operand, x.name)


def convert(model, target, x, kind, options, opset):
    """Fits and converts a model, for operands of float32 and without options where the converter cannot otherwise."""
    fit = x[:, 0] if kind is TEXT and x.shape[1:] == (1,) else x
    model = model.fit(fit) if target is None else model.fit(fit, target)
    tries = [(kind, options), (FLOAT, options), (FLOAT, {"zipmap": False}), (FLOAT, {})] if kind in (FLOAT, DOUBLE) else [(kind, options), (kind, {})]
    for last, (kind, options) in enumerate(tries, 1):
        operand = x.astype({FLOAT: np.float32, DOUBLE: np.float64, INT: np.int64, TEXT: object}[kind])
        try:
            m = to_onnx(model, initial_types=[("X", kind([None] + list(x.shape[1:])))], options={id(model): options} if options else None, target_opset=opset)
            for n in m.graph.node:
                if n.op_type == "StringNormalizer":
                    n.attribute.append(onnx.helper.make_attribute("locale", "C"))  # which every machine has
            ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"X": operand})
            return m, operand
        except Exception:
            if last == len(tries):
                raise


def main(folder, seed):
    rng = np.random.default_rng(seed)
    np.random.seed(seed)
    ort.set_default_logger_severity(4)
    register()
    for i, (label, model, target, x, kind, options) in enumerate(cases(rng, seed)):
        try:
            m, operand = convert(model, target, x, kind, options, {"": (21, 17, 15)[i % 3], "ai.onnx.ml": 3})
        except Exception as e:  # no converter, or ONNX Runtime lacks a kernel
            print(f"left out: {label}: {type(e).__name__} {' '.join(str(e).split())[:160]}")
            continue
        write(os.path.join(folder, f"{i:03d} {label}".replace("/", " ")), m, operand)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
