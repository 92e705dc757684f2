"""Pictures of layouts, and what a program costs, for whoever looks at kernels."""

from tilelang.tools.analyzer import AnalysisResult, Analyzer
from tilelang.tools.layout_plots import plot_fragment_tv, plot_layout

__all__ = ["AnalysisResult", "Analyzer", "plot_fragment_tv", "plot_layout"]
