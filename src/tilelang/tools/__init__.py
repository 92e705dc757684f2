"""Pictures of layouts, and what a program costs, for whoever looks at kernels."""

from tilelang.layout.plots import plot_fragment_tv, plot_layout
from tilelang.tools.analyzer import AnalysisResult, Analyzer

__all__ = ["AnalysisResult", "Analyzer", "plot_fragment_tv", "plot_layout"]
