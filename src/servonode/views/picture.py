"""The figure that all pictures are: it belongs to nobody until somebody shows it."""

from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


class Picture(Figure):
    """A matplotlib Figure without pyplot: `savefig` writes it, a notebook shows it as a cell's last value."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        FigureCanvasAgg(self)

    def show(self, warn: bool = True) -> None:  # noqa: ARG002  (that of Figure)
        """Show it in a window, until that is closed; in a notebook below the cell. pyplot chooses the window."""
        import matplotlib.pyplot as plt
        from matplotlib._pylab_helpers import Gcf

        number = max(plt.get_fignums(), default=0) + 1
        manager = plt._get_backend_mod().new_figure_manager_given_figure(number, self)
        Gcf._set_new_active_manager(manager)
        plt.show()
        if not plt.isinteractive():
            plt.close(self)
            FigureCanvasAgg(self)
