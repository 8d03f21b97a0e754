"""The colours that figures and the explorer's page share.

Apart from the figures themselves, so that the page can start without Matplotlib.
"""

# Told apart by readers with colour-blindness (Okabe and Ito's set, strongest contrast first).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
