"""
Models of speed, time and loss, fitted from measurements; each knows how wrong it has been.

A model is one module: what its table must hold, its ways to fit, what it predicts. Nothing here
reads a file or a clock. scikit-learn, scipy and xgboost are imported only by the fit that needs
them, so that the operator starts without.
"""
